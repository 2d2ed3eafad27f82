"use strict";
(() => {
  const scene = JSON.parse(document.getElementById("scene").textContent);
  const canvas = document.getElementById("view");
  const context = canvas.getContext("2d");
  const byId = (id) => document.getElementById(id);
  const state = { group: 0, mode: "maps", turn: -0.6, tilt: 0.9, zoom: 1, x: 0, y: 0, hidden: new Set() };

  const decode = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };
  const groups = scene.groups.map((group) => ({
    ...group,
    maps: group.maps.map((map) => ({ ...map, segments: decode(map.segments) })),
    merged: group.merged && { segments: decode(group.merged.segments), views: group.merged.views },
  }));
  const shades = ["--soft", "--r0", "--r1", "--r2", "--r3", "--r4"];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function projection(group) {
    const scale = (0.46 * Math.min(canvas.width, canvas.height) * state.zoom) / group.radius;
    const [c, s] = [Math.cos(state.turn), Math.sin(state.turn)];
    const [ct, st] = [Math.cos(state.tilt), Math.sin(state.tilt)];
    const [mx, my] = [canvas.width / 2 + state.x * canvas.width, canvas.height / 2 + state.y * canvas.height];
    return (p, i) => {
      const x = p[i] * c - p[i + 1] * s;
      const y = p[i] * s + p[i + 1] * c;
      return [mx + scale * x, my - scale * (y * st + p[i + 2] * ct)];
    };
  }

  function stroke(segments, project, style, rows) {
    context.strokeStyle = style;
    context.beginPath();
    const count = rows ? rows.length : segments.length / 6;
    for (let n = 0; n < count; n++) {
      const i = 6 * (rows ? rows[n] : n);
      context.moveTo(...project(segments, i));
      context.lineTo(...project(segments, i + 3));
    }
    context.stroke();
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.lineWidth = 1.2 * ratio;
    const group = groups[state.group];
    const project = projection(group);
    if (state.mode === "merged" && group.merged) {
      const rows = shades.map(() => []);
      group.merged.views.forEach((views, row) => rows[Math.min(views, shades.length) - 1].push(row));
      rows.forEach((list, n) => stroke(group.merged.segments, project, colour(shades[n]), list));
      byId("count").textContent = `${group.merged.views.length} lines; grey: of one map, green to red: of two to six`;
    } else {
      const shown = group.maps.filter((map) => !state.hidden.has(map.name));
      shown.forEach((map) => stroke(map.segments, project, map.colour));
      byId("count").textContent = `${shown.length} of ${group.maps.length} maps`;
    }
  }

  function reset(turn, tilt) {
    Object.assign(state, { turn, tilt, zoom: 1, x: 0, y: 0 });
    draw();
  }
  byId("fit").onclick = () => reset(-0.6, 0.9);
  byId("above").onclick = () => reset(0, Math.PI / 2);
  byId("front").onclick = () => reset(0, 0);
  byId("group").onchange = (event) => { state.group = Number(event.target.value); draw(); };
  byId("mode").onchange = (event) => { state.mode = event.target.value; draw(); };
  document.querySelectorAll("[data-map]").forEach((box) => {
    box.onchange = () => { state.hidden[box.checked ? "delete" : "add"](box.dataset.map); draw(); };
  });
  document.querySelectorAll("[data-group]").forEach((button) => {
    button.onclick = () => { byId("group").value = button.dataset.group; state.group = Number(button.dataset.group); draw(); };
  });

  canvas.oncontextmenu = (event) => event.preventDefault();
  canvas.onpointerdown = (event) => canvas.setPointerCapture(event.pointerId);
  canvas.onpointermove = (event) => {
    if (!event.buttons) return;
    if (event.shiftKey || event.buttons === 2) {
      state.x += event.movementX / canvas.clientWidth;
      state.y += event.movementY / canvas.clientHeight;
    } else {
      state.turn += event.movementX * 0.008;
      state.tilt = Math.min(Math.PI / 2, Math.max(-Math.PI / 2, state.tilt + event.movementY * 0.008));
    }
    draw();
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    state.zoom *= Math.exp(-0.0015 * event.deltaY);
    draw();
  }, { passive: false });
  canvas.onkeydown = (event) => {
    const moves = { ArrowLeft: ["turn", -0.1], ArrowRight: ["turn", 0.1], ArrowUp: ["tilt", 0.1], ArrowDown: ["tilt", -0.1] };
    if (moves[event.key]) state[moves[event.key][0]] += moves[event.key][1];
    else if (event.key === "+" || event.key === "=") state.zoom *= 1.2;
    else if (event.key === "-") state.zoom /= 1.2;
    else if (event.key === "0") return reset(-0.6, 0.9);
    else return;
    event.preventDefault();
    draw();
  };
  window.addEventListener("resize", draw);
  draw();
})();
