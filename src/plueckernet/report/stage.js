// The controls of the view: pointer, keys, display options, legend, axes, and what is known of the line under the pointer.
"use strict";
const $ = (id) => document.getElementById(id);

/** Connects the controls of the page to a view; null without WebGL 2. `dropped` is called when the source was moved by hand. */
function stageOf(dropped = () => {}) {
  const canvas = $("view"), view = sceneView(canvas, (camera) => { showScale(camera); showAxes(camera); labelEllipsoid(camera); });
  if (view === null) {
    $("message").textContent = "This browser has no WebGL 2, so the maps cannot be drawn. The rest of the page is complete.";
    $("message").hidden = false;
    return null;
  }
  const { state, show } = view;
  window.plueckernetView = view; // for the console and for tests

  // ---- pointer and keys ----

  const pointers = new Map();
  let handle = null, travelled = 0, hovering = false;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    travelled = 0;
    handle = pointers.size === 1 && view.scene ? view.grab(event.offsetX, event.offsetY) : null;
  });
  canvas.addEventListener("pointerup", (event) => {
    pointers.delete(event.pointerId);
    if (handle && travelled > 0) dropped(view.motion());
    else if (travelled < 5) point(event);
    handle = null;
  });
  canvas.addEventListener("pointercancel", (event) => { pointers.delete(event.pointerId); handle = null; });
  canvas.addEventListener("pointerleave", () => { if (!pointers.size) point(null); });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return hover(event);
    const now = [event.clientX, event.clientY], x = now[0] - before[0], y = now[1] - before[1];
    travelled += Math.hypot(x, y);
    if (travelled >= 5) point(null);
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]);
      view.zoom(apart(before) / Math.max(1, apart(now)));
      view.move(x / 2, y / 2);
    } else if (handle) view.pull(handle, x, y);
    else if (event.buttons & 2 || event.buttons & 4 || event.shiftKey) view.move(x, y);
    else view.turn(x, y);
    pointers.set(event.pointerId, now);
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    point(null);
    view.zoom(Math.exp(0.0015 * Math.max(-200, Math.min(200, event.deltaY))));
  }, { passive: false });
  canvas.addEventListener("dblclick", () => $("fit").click());
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const buttons = { 0: "fit", 7: "above", 1: "front" };
  canvas.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (step) (event.shiftKey ? view.move : view.turn)(25 * step[0], 25 * step[1]);
    else if (event.key === "+" || event.key === "=") view.zoom(0.85);
    else if (event.key === "-") view.zoom(1.18);
    else if (event.key in buttons) $(buttons[event.key]).click();
    else return;
    event.preventDefault();
  });
  $("fit").onclick = () => view.lookFrom(-1.05, 0.62);
  $("above").onclick = () => view.lookFrom(-Math.PI / 2, 1.5707);
  $("front").onclick = () => view.lookFrom(-Math.PI / 2, 0);

  // ---- the line under the pointer ----

  /** One look per frame: a large map takes milliseconds. */
  function hover(event) {
    if (hovering || event.pointerType === "touch") return;
    hovering = true;
    requestAnimationFrame(() => { hovering = false; point(event); });
  }

  function point(event) {
    const line = event && view.scene ? view.pick(event.offsetX, event.offsetY, event.pointerType === "touch" ? 22 : 9) : null;
    view.highlight(line);
    $("tip").hidden = line === null;
    if (line === null) return;
    const name = (side, number, id) => `${side} line ${number}${id === undefined || id === null ? "" : ` (id ${id})`}`;
    const partner = line.pair < 0 ? ["no partner within the threshold"] : [
      `${vec.digits(line.distance, 2)} and ${vec.digits(line.angle, 2)}° from ${name(["target", "source"][line.side], line.partnerNumber)}`];
    $("tip").replaceChildren(...[name(line.name, line.number, line.id), `length ${vec.digits(line.length)}`, ...partner].map((text) => {
      const row = document.createElement("div");
      row.textContent = text;
      return row;
    }));
    const x = Math.min(event.offsetX + 14, canvas.clientWidth - $("tip").offsetWidth - 6);
    const below = event.offsetY + 16 + $("tip").offsetHeight < canvas.clientHeight;
    $("tip").style.transform = `translate(${Math.max(6, x)}px, ${below ? event.offsetY + 16 : event.offsetY - $("tip").offsetHeight - 10}px)`;
  }

  // ---- overlays ----

  function showScale({ perPixel }) {
    const length = vec.round(120 * perPixel);
    $("scale-bar").style.width = `${length / perPixel}px`;
    $("scale-text").textContent = `${vec.digits(length, 1)} · cells of ${vec.digits(view.ground.cell, 1)}`;
  }

  function showAxes({ right, up }) {
    const parts = [0, 1, 2].map((k) => {
      const axis = view.scene.axes.map((row) => row[k]), x = 26 * vec.dot(axis, right), y = -26 * vec.dot(axis, up), name = "xyz"[k];
      return `<line class="${name}" x2="${x.toFixed(1)}" y2="${y.toFixed(1)}"/><text class="${name}" x="${(1.32 * x).toFixed(1)}" y="${(1.32 * y + 4).toFixed(1)}">${name}</text>`;
    });
    $("axes").innerHTML = parts.join("");
  }

  function labelEllipsoid({ camera }) {
    const label = $("ellipsoid-label"), visible = Boolean(view.scene.ellipsoid) && show.ellipsoid;
    label.hidden = !visible;
    if (!visible) return;
    const { centre, axes, factor } = view.scene.ellipsoid;
    const height = Math.max(...axes.map((axis) => Math.abs(axis[2])));
    const [x, y] = view.project(vec.plus(centre, [0, 0, height]), camera);
    label.textContent = factor === 1 ? "3σ of the position" : `3σ of the position, enlarged ${factor.toLocaleString("en")} times`;
    label.style.transform = `translate(${x}px, ${y}px) translate(-50%, -140%)`;
  }

  function showCount() {
    const pairs = view.pairCount(), [some, all] = pairs ? [pairs.count, pairs.all].map((count) => count.toLocaleString("en")) : [];
    const noun = pairs?.inliers ? "inliers" : "pairs within the inlier threshold";
    if (!pairs) $("count").textContent = "";
    else if (state.threshold >= 1) $("count").textContent = `${all} ${noun}`;
    else $("count").textContent = `${some} of ${all} ${noun} are at most ${vec.digits(pairs.distance, 2)} apart`;
  }

  // ---- display options ----

  function progressTo(value) {
    state.progress = value;
    $("progress").value = value;
    view.moving();
  }
  $("progress").oninput = (event) => progressTo(Number(event.target.value));
  function play() {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return progressTo(state.progress < 0.5 ? 1 : 0);
    const start = performance.now();
    const frame = (now) => {
      const elapsed = Math.min(1, Math.max(0, (now - start) / 1800)); // fraction of the animation
      progressTo(elapsed * elapsed * (3 - 2 * elapsed));
      if (elapsed < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }
  $("play").onclick = play;

  function choose(index) {
    view.choose(index);
    $("pose").value = String(index);
    $("after").textContent = (view.scene.poses[index]?.name ?? "after").replace(/ \d+$/, "");
    for (const button of document.querySelectorAll("button[data-pose]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.pose) === index));
    }
    point(null);
    showCount();
  }
  $("pose").onchange = (event) => choose(Number(event.target.value));
  // Buttons may be added later, so the page listens for them.
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-pose]");
    if (button) choose(Number(button.dataset.pose));
  });
  for (const name of ["source", "target", "matches", "unmatched", "ellipsoid"]) {
    $(`show-${name}`).addEventListener("change", (event) => { show[name] = event.target.checked; legend(); view.redraw(); });
  }
  $("colour").addEventListener("change", (event) => { state.colour = event.target.value; legend(); view.redraw(); });
  $("up").addEventListener("change", (event) => { view.setUp(event.target.value); view.lookFrom(-1.05, 0.62); });
  $("threshold").addEventListener("input", (event) => {
    state.threshold = Number(event.target.value);
    if (view.scene) view.choose(state.pose);
    showCount();
  });
  /** Rows of the legend that say nothing are invisible, but keep their place: the picture keeps its size. */
  function legend() {
    const paired = Boolean(view.scene?.poses.length) && show.matches, ramped = paired && state.colour === "residual";
    const rows = [[[$("legend"), ...document.querySelectorAll(".legend .dim")], ramped], [[document.querySelector(".threshold")], paired]];
    for (const [parts, visible] of rows) for (const part of parts) part.style.visibility = visible ? "" : "hidden";
  }
  legend();

  /** Show a scene, and one of its poses. */
  function showScene(scene, pose = 0) {
    view.setScene(scene, pose);
    const found = view.foundUp();
    $("up").options[0].textContent = found ? `found: ${found}` : "found";
    $("range").textContent = vec.digits(scene.range, 2);
    legend();
    choose(state.pose);
    view.moving();
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", view.recolour);
  for (const moment of ["beforeprint", "afterprint"]) addEventListener(moment, () => { view.recolour(); view.resize(); });
  canvas.addEventListener("webglcontextlost", () => {
    $("message").textContent = "The graphics context was lost. Reload the page to draw the maps again.";
    $("message").hidden = false;
  });
  return { view, showScene, choose, progressTo, play };
}

// Buttons that copy the text of another element.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const text = $(button.dataset.copy).dataset.text || $(button.dataset.copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren($(button.dataset.copy));
    button.textContent = "selected";
  }
});
