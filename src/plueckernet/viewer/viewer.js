// The page of the viewer: files, actions, and what the server tells.
"use strict";
(() => {
  const SIDES = ["source", "target"];
  const stage = stageOf(moved), errors = new Map();
  let version = -1, played = null;

  // ---- server ----

  /** An action of the server; an error is shown, about one map or about the action. */
  async function act(path, body, about = "") {
    about ? errors.delete(about) : errors.clear();
    showErrors();
    let answer;
    try {
      answer = await fetch(path, { method: "POST", body });
    } catch {
      answer = null;
    }
    const document = answer ? await answer.json().catch(() => ({ error: answer.statusText })) : { error: "The viewer does not answer: is it still running?" };
    if (document.error) {
      errors.set(about, document.error);
      showErrors();
      return null;
    }
    return document;
  }

  function showErrors() {
    $("errors").replaceChildren(...[...errors.values()].map((text) => {
      const row = document.createElement("div");
      row.textContent = text;
      return row;
    }));
  }

  const news = new EventSource("events");
  news.onmessage = async (event) => {
    const { version: newest, stage: name, progress } = JSON.parse(event.data);
    $("work").hidden = name === null;
    $("work").firstElementChild.style.width = `${100 * progress}%`;
    $("work").setAttribute("aria-valuenow", progress);
    $("stage-name").textContent = name ?? "";
    if (newest !== version) { version = newest; await refresh(); }
  };

  /** Show the state of the server. */
  async function refresh() {
    const [state, scene] = await Promise.all(["state", "scene"].map((path) => fetch(path).then((answer) => answer.json())));
    SIDES.forEach((side, i) => {
      $(`map-${side}`).textContent = state.maps[side] ?? "no map";
      document.querySelectorAll("[data-map]")[i].dataset.map = state.maps[side] === null ? "missing" : "loaded";
    });
    $("register").disabled = !state.ready;
    $("by-hand").disabled = !state.ready;
    $("refine").disabled = state.poses.length === 0;
    for (const button of document.querySelectorAll("[data-export]")) button.disabled = state.status === "";
    document.body.className = state.status;
    $("cards").innerHTML = state.cards;
    $("ellipsoid-choice").hidden = !state.ellipsoid;
    $("pose").replaceChildren(...state.poses.map((name, index) => new Option(name, index)));
    $("pose-label").hidden = state.poses.length < 2;
    if (stage && scene) {
      stage.showScene(scene, state.focus);
      if (played !== null && state.registrations !== played) stage.play();
      else stage.progressTo(1);
    }
    played = state.registrations;
  }

  // ---- files ----

  function upload(side, file) {
    const name = SIDES[side], query = new URLSearchParams({ side: name, name: file.name });
    return act(`upload?${query}`, file, name);
  }
  SIDES.forEach((side, i) => {
    $(`open-${side}`).onclick = () => $(`file-${side}`).click();
    $(`file-${side}`).onchange = (event) => {
      if (event.target.files.length) upload(i, event.target.files[0]);
      event.target.value = "";
    };
  });
  const hasFiles = (event) => event.dataTransfer !== null && event.dataTransfer.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault(); // otherwise the browser opens the file instead of the page
    event.dataTransfer.dropEffect = "copy";
    $("dropping").hidden = false;
  });
  addEventListener("dragleave", (event) => { if (event.relatedTarget === null) $("dropping").hidden = true; });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    $("dropping").hidden = true;
    const folder = [...event.dataTransfer.items].some((item) => item.webkitGetAsEntry()?.isDirectory);
    const files = [...event.dataTransfer.files], maps = [...document.querySelectorAll("[data-map]")];
    const on = event.target.closest("[data-map]");
    const side = on ? maps.indexOf(on) : maps.findIndex((map) => map.dataset.map === "missing");
    const problem = folder ? "Folders cannot be dropped. Use the command line: plueckernet view SOURCE TARGET"
      : files.length > 2 ? "Drop at most two files: the source and the target"
      : files.length === 1 && side < 0 ? "Both maps are loaded. Drop the file on the map that it replaces" : "";
    errors.delete("");
    if (problem) errors.set("", problem);
    showErrors();
    if (problem) return;
    if (files.length === 1) upload(side, files[0]);
    else files.forEach((file, index) => upload(index, file));
  });

  // ---- actions ----

  $("register").onclick = async () => {
    leaveHand();
    $("register").disabled = true;
    await act("register");
    $("register").disabled = false;
  };
  $("refine").onclick = async () => {
    if (await act("refine", JSON.stringify({ pose: Number($("pose").value) }))) leaveHand();
  };
  $("by-hand").onchange = (event) => {
    stage.view.show.hand = event.target.checked;
    $("hand-help").hidden = !event.target.checked;
    if (!event.target.checked) stage.view.state.hand = null;
    stage.progressTo(1);
  };
  function leaveHand() {
    $("by-hand").checked = false;
    $("hand-help").hidden = true;
    if (stage) stage.view.show.hand = false;
    stage?.view.redraw();
  }
  /** The source was moved by hand: the server finds the pairs of this pose. */
  function moved({ quaternion, translation }) {
    act("hand", JSON.stringify({ quaternion, translation }));
  }
  for (const button of document.querySelectorAll("[data-export]")) {
    button.onclick = () => {
      const link = document.createElement("a");
      link.href = `export?${new URLSearchParams({ name: button.dataset.export, pose: $("pose").value || 0 })}`;
      link.download = button.dataset.export;
      link.click();
    };
  }
})();
