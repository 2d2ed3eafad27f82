// Files dropped on the page go to viser's own upload controls, of which there is one for each map, source first.
// Two files are the source and the target; a single one goes to the map it is dropped on, else to the first that is missing.
// This is the handler of an element: what belongs to the window is called by its full name.
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
  const say = text => { document.getElementById("plueckernet-drop").textContent = text; };

  const give = (place, file) => {
    const files = new DataTransfer(), input = inputs()[place];
    files.items.add(file);
    input.files = files.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const placeOf = target => {
    const on = target.closest("[data-map]");
    if (on !== null) return sides().indexOf(on);
    return sides().findIndex(side => side.dataset.map === "missing");
  };

  window.addEventListener("dragover", event => {
    if (!hasFiles(event)) return;
    event.preventDefault(); // else the browser leaves the page and shows the file
    event.dataTransfer.dropEffect = "copy";
    frame.hidden = false;
  });
  window.addEventListener("dragleave", event => { if (event.relatedTarget === null) frame.hidden = true; });
  window.addEventListener("drop", event => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    frame.hidden = true;
    const folder = [...event.dataTransfer.items].some(item => item.webkitGetAsEntry()?.isDirectory);
    const files = [...event.dataTransfer.files], place = placeOf(event.target);
    if (folder) return say("A folder cannot be dropped; name it on the command line: plueckernet view SOURCE TARGET");
    if (files.length > 2) return say("Two files at most: the source and the target");
    if (files.length === 1 && place < 0) return say("Both maps are there: drop the file on the one to be replaced");
    say("");
    if (files.length === 1) give(place, files[0]);
    else files.forEach((file, each) => give(each, file));
  });
})();
