// Passes files dropped on the page to viser's upload controls: one per map, the source first.
// Two files are the source and the target. A single file goes to the map it is dropped on, else to the first missing map.
// This code runs as the handler of an element, so properties of the window need their full name.
(() => {
  if (window.plueckernetDrop) return;
  window.plueckernetDrop = true;
  const sides = () => [...document.querySelectorAll("[data-map]")];
  const inputs = () => [...document.querySelectorAll("input[type=file]")];
  const hasFiles = event => event.dataTransfer !== null && event.dataTransfer.types.includes("Files");
  const frame = document.createElement("div"); // shown while files are held over the page
  frame.style.cssText = "position:fixed;inset:0;border:4px solid #1c7ed6;pointer-events:none;z-index:10000";
  frame.hidden = true;
  document.body.append(frame);
  const showMessage = text => { document.getElementById("plueckernet-drop").textContent = text; };

  const upload = (side, file) => {
    const files = new DataTransfer(), input = inputs()[side];
    files.items.add(file);
    input.files = files.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const sideOf = target => {
    const label = target.closest("[data-map]");
    if (label !== null) return sides().indexOf(label);
    return sides().findIndex(side => side.dataset.map === "missing");
  };

  window.addEventListener("dragover", event => {
    if (!hasFiles(event)) return;
    event.preventDefault(); // otherwise the browser opens the file instead of the page
    event.dataTransfer.dropEffect = "copy";
    frame.hidden = false;
  });
  window.addEventListener("dragleave", event => { if (event.relatedTarget === null) frame.hidden = true; });
  window.addEventListener("drop", event => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    frame.hidden = true;
    const folder = [...event.dataTransfer.items].some(item => item.webkitGetAsEntry()?.isDirectory);
    const files = [...event.dataTransfer.files], side = sideOf(event.target);
    if (folder) return showMessage("Folders cannot be dropped. Use the command line: plueckernet view SOURCE TARGET");
    if (files.length > 2) return showMessage("Drop at most two files: the source and the target");
    if (files.length === 1 && side < 0) return showMessage("Both maps are loaded. Drop the file on the map that it replaces");
    showMessage("");
    if (files.length === 1) upload(side, files[0]);
    else files.forEach((file, index) => upload(index, file));
  });
})();
