// The 3D view of the report: thousands of lines as screen-space quads, drawn by one small shader program.
"use strict";
(() => {
  const scene = JSON.parse(document.getElementById("scene").textContent);
  const $ = (id) => document.getElementById(id);
  const canvas = $("view");
  const gl = canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
  if (!gl) {
    $("message").textContent = "This browser has no WebGL 2, so the maps cannot be drawn. The rest of the page is complete.";
    $("message").hidden = false;
    return;
  }

  // ---- data and buffers ----

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const floats = (text) => new Float32Array(bytes(text));
  const segments = { source: floats(scene.source.segments), target: floats(scene.target.segments) };
  const MIN_MOVING_LINES = 1500; // per map, drawn while the view moves and frames are slow; lines are stored longest first
  const UNMATCHED = -1;
  const state = {
    progress: 1, pose: 0, azimuth: -1.05, elevation: 0.62, zoom: 1, pan: [0, 0, 0], moving: false, queued: false,
    movingLines: 6000, lastTime: 0, frameTime: 0,
  };

  const VERTEX = `#version 300 es
    in vec2 corner; in vec3 a; in vec3 b; in float residual;
    uniform mat4 motionA, motionB, camera;
    uniform vec2 viewport;
    uniform float near, halfWidth, nearDepth, farDepth, fade;
    uniform int only; // 0 unmatched, 1 matched, 2 everything
    uniform int ramped;
    uniform vec4 colour;
    uniform vec3 ramp[5];
    out vec4 shade; out float across;
    void main() {
      gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
      if ((only == 0 && residual >= 0.0) || (only == 1 && residual < 0.0)) return;
      vec4 p = camera * (motionA * vec4(a, 1.0)), q = camera * (motionB * vec4(b, 1.0));
      if (p.w < near && q.w < near) return;
      if (p.w < near) p = mix(q, p, (q.w - near) / (q.w - p.w));
      if (q.w < near) q = mix(p, q, (p.w - near) / (p.w - q.w));
      vec2 s = p.xy / p.w * viewport / 2.0, t = q.xy / q.w * viewport / 2.0, along = t - s;
      float pixels = length(along);
      along = pixels > 1e-4 ? along / pixels : vec2(1.0, 0.0);
      across = corner.y * (halfWidth + 1.0);
      vec2 at = mix(s, t, corner.x) + along * (2.0 * corner.x - 1.0) * 0.5 * halfWidth + vec2(-along.y, along.x) * across;
      gl_Position = vec4(at / viewport * 2.0, 0.0, 1.0);
      shade = colour;
      if (ramped == 1) {
        float stop = clamp(residual, 0.0, 1.0) * 4.0;
        int below = min(int(stop), 3);
        shade.rgb = mix(ramp[below], ramp[below + 1], stop - float(below));
      }
      float depth = clamp((mix(p.w, q.w, corner.x) - nearDepth) / (farDepth - nearDepth), 0.0, 1.0);
      shade.a *= 1.0 - fade * depth;
    }`;
  const FRAGMENT = `#version 300 es
    precision highp float;
    in vec4 shade; in float across; out vec4 pixel;
    uniform float halfWidth;
    void main() {
      float alpha = shade.a * clamp(halfWidth + 0.5 - abs(across), 0.0, 1.0);
      pixel = vec4(shade.rgb * alpha, alpha);
    }`;

  const program = link(VERTEX, FRAGMENT);
  const uniform = {};
  for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
    const name = gl.getActiveUniform(program, i).name.replace("[0]", "");
    uniform[name] = gl.getUniformLocation(program, name);
  }
  const corners = buffer(new Float32Array([0, -1, 1, -1, 0, 1, 1, 1]));

  function link(...sources) {
    const program = gl.createProgram();
    sources.forEach((source, i) => {
      const shader = gl.createShader(i === 0 ? gl.VERTEX_SHADER : gl.FRAGMENT_SHADER);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    });
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    return program;
  }

  function buffer(values) {
    const handle = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, handle);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    return handle;
  }

  /** Lines in GPU buffers: six coordinates each, and a residual as a fraction of the colour range. */
  function strokes(values) {
    const count = values.length / 6;
    const array = gl.createVertexArray();
    gl.bindVertexArray(array);
    attribute("corner", 2, 8, 0, 0, corners);
    const lines = buffer(values);
    attribute("a", 3, 24, 0, 1, lines);
    attribute("b", 3, 24, 12, 1, lines);
    const residual = buffer(new Float32Array(count).fill(UNMATCHED));
    attribute("residual", 1, 4, 0, 1, residual);
    const colourBy = (fractions) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, residual);
      gl.bufferSubData(gl.ARRAY_BUFFER, 0, fractions);
    };
    return { array, count, colourBy };
  }

  function attribute(name, size, stride, offset, divisor, from) {
    const location = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, from);
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, size, gl.FLOAT, false, stride, offset);
    gl.vertexAttribDivisor(location, divisor);
  }

  const source = strokes(segments.source), target = strokes(segments.target);
  const shownPoses = scene.poses.map((pose) => {
    const pairs = new Uint32Array(bytes(pose.pairs));
    const fractions = floats(pose.residuals).map((value) => value / scene.range);
    const connectors = strokes(floats(pose.connectors));
    connectors.colourBy(fractions);
    const sides = [source, target].map((side, i) => {
      const values = new Float32Array(side.count).fill(UNMATCHED);
      fractions.forEach((fraction, k) => { values[pairs[2 * k + i]] = fraction; });
      return values;
    });
    return { pose, connectors, sides };
  });
  const ellipsoid = scene.ellipsoid && strokes(globe(scene.ellipsoid));
  const ground = groundLines();
  const grid = strokes(ground.lines);

  /** The ellipsoid as a wireframe: four meridian circles and five parallels. */
  function globe({ centre, axes }) {
    const lines = [], steps = 48;
    const point = (u, v) => [0, 1, 2].map((i) => centre[i] + Math.cos(v) * (Math.cos(u) * axes[0][i]
      + Math.sin(u) * axes[1][i]) + Math.sin(v) * axes[2][i]);
    const circle = (at) => {
      for (let k = 0; k < steps; k++) lines.push(...at(2 * Math.PI * k / steps), ...at(2 * Math.PI * (k + 1) / steps));
    };
    for (let k = 0; k < 4; k++) circle((v) => point(Math.PI * k / 4, v));
    for (const v of [-0.9, -0.45, 0, 0.45, 0.9]) circle((u) => point(u, v));
    return new Float32Array(lines);
  }

  /** A horizontal grid under the target; the cell size is 1, 2 or 5 times a power of ten. */
  function groundLines() {
    const { centre, radius } = (scene.poses[0] || scene.before).fit;
    const cell = round(radius / 5), lines = [], cells = Math.ceil(1.3 * radius / cell);
    const middle = centre.map((x) => Math.round(x / cell) * cell), z = scene.floor;
    for (let k = -cells; k <= cells; k++) {
      const half = Math.sqrt(Math.max(0, cells * cells - k * k)) * cell;
      lines.push(middle[0] + k * cell, middle[1] - half, z, middle[0] + k * cell, middle[1] + half, z);
      lines.push(middle[0] - half, middle[1] + k * cell, z, middle[0] + half, middle[1] + k * cell, z);
    }
    return { cell, lines: new Float32Array(lines) };
  }

  function round(value) {
    const decade = 10 ** Math.floor(Math.log10(value));
    return decade * (value / decade >= 5 ? 5 : value / decade >= 2 ? 2 : 1);
  }

  // ---- motion and camera ----

  const mix = (a, b, s) => a.map((x, i) => x + (b[i] - x) * s);
  const plus = (a, b, s = 1) => a.map((x, i) => x + s * b[i]);
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const IDENTITY = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);

  function slerp(a, b, s) {
    let cosine = a.reduce((sum, x, i) => sum + x * b[i], 0);
    if (cosine < 0) { b = b.map((x) => -x); cosine = -cosine; }
    if (cosine > 0.9999) return mix(a, b, s);
    const angle = Math.acos(cosine), sine = Math.sin(angle);
    return a.map((x, i) => (Math.sin((1 - s) * angle) * x + Math.sin(s * angle) * b[i]) / sine);
  }

  /** The motion of the source between before and after, as a column-major matrix. */
  function motion() {
    const after = scene.poses[state.pose] || scene.before, s = state.progress;
    const q = slerp(scene.before.quaternion, after.quaternion, s);
    const norm = Math.hypot(...q), [w, x, y, z] = q.map((value) => value / norm);
    const t = mix(scene.before.translation, after.translation, s);
    return new Float32Array([
      1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0,
      2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0,
      2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0,
      t[0], t[1], t[2], 1,
    ]);
  }

  /** The camera; it follows the maps from before to after. */
  function cameraView() {
    const after = (scene.poses[state.pose] || scene.before).fit, s = state.progress;
    const radius = scene.before.fit.radius * (1 - s) + after.radius * s;
    const middle = plus(mix(scene.before.fit.centre, after.centre, s), state.pan);
    const aspect = canvas.width / Math.max(1, canvas.height), half = Math.tan(0.3);
    const distance = 0.84 * radius / Math.sin(Math.atan(half * Math.min(1, aspect))) * state.zoom;
    const level = Math.cos(state.elevation);
    const back = [level * Math.cos(state.azimuth), level * Math.sin(state.azimuth), Math.sin(state.elevation)];
    const right = [-Math.sin(state.azimuth), Math.cos(state.azimuth), 0], up = cross(back, right);
    const from = plus(middle, back, distance), f = 1 / half;
    const row = (axis, scale) => [...axis.map((x) => scale * x), -scale * dot(axis, from)];
    const [r0, r1, r3] = [row(right, f / aspect), row(up, f), row(back, -1)];
    const camera = new Float32Array([0, 1, 2, 3].flatMap((i) => [r0[i], r1[i], 0, r3[i]]));
    return { camera, distance, radius, right, up, perPixel: 2 * distance * half / Math.max(1, canvas.clientHeight) };
  }

  // ---- drawing ----

  let palette;
  function readPalette() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => {
      const hex = style.getPropertyValue(`--${name}`).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
      return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
    };
    palette = Object.fromEntries(["stage", "source", "target", "ellipsoid", "grid"].map((name) => [name, colour(name)]));
    palette.ramp = new Float32Array([0, 1, 2, 3, 4].flatMap((i) => colour(`r${i}`)));
  }

  function stroke(what, { colour, alpha = 1, width, a = IDENTITY, b = a, only = 2, ramped = false, fade = 0.55 }) {
    gl.bindVertexArray(what.array);
    gl.uniformMatrix4fv(uniform.motionA, false, a);
    gl.uniformMatrix4fv(uniform.motionB, false, b);
    gl.uniform4f(uniform.colour, ...colour, alpha);
    gl.uniform1f(uniform.halfWidth, width / 2 * devicePixelRatio);
    gl.uniform1i(uniform.only, only);
    gl.uniform1i(uniform.ramped, ramped ? 1 : 0);
    gl.uniform1f(uniform.fade, fade);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, state.moving ? Math.min(what.count, state.movingLines) : what.count);
  }

  /** While the view moves, draw as many lines as keep the frame rate up. */
  function adapt() {
    const now = performance.now(), frame = now - state.lastTime;
    state.lastTime = now;
    if (!state.moving || frame > 2000) return;
    state.frameTime = frame;
    if (frame > 70) state.movingLines = Math.max(MIN_MOVING_LINES, state.movingLines / 2);
    else if (frame < 25) state.movingLines *= 1.3;
  }

  function draw() {
    state.queued = false;
    adapt();
    const view = cameraView(), moved = motion(), shown = shownPoses[state.pose];
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...palette.stage, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.useProgram(program);
    gl.uniformMatrix4fv(uniform.camera, false, view.camera);
    gl.uniform2f(uniform.viewport, canvas.width, canvas.height);
    gl.uniform1f(uniform.near, 0.01 * view.distance);
    gl.uniform1f(uniform.nearDepth, view.distance - view.radius);
    gl.uniform1f(uniform.farDepth, view.distance + view.radius);
    gl.uniform3fv(uniform.ramp, palette.ramp);
    stroke(grid, { colour: palette.grid, alpha: 0.55, width: 1, fade: 0.8 });
    drawMaps(moved, shown);
    if (shown && $("show-matches").checked && $("show-source").checked && $("show-target").checked) {
      stroke(shown.connectors, { colour: palette.ellipsoid, alpha: 0.35 + 0.5 * state.progress, width: 1, a: moved, b: IDENTITY, ramped: true });
    }
    const error = ellipsoid && $("show-ellipsoid").checked;
    if (error) stroke(ellipsoid, { colour: palette.ellipsoid, width: 1.2, fade: 0.3 });
    labelEllipsoid(error, view);
    showScale(view);
  }

  /** Unmatched lines first and dim; the target broad and pale, so that a source line on top does not hide it. */
  function drawMaps(moved, shown) {
    const matches = Boolean(shown) && $("show-matches").checked;
    const ramped = matches && $("colour").value === "residual";
    const crowd = Math.sqrt(3000 / Math.max(source.count, target.count)) / state.zoom; // many lines in few pixels are drawn thin
    const thin = Math.min(1, Math.max(0.4, crowd));
    const sides = [["target", target, IDENTITY, 3 * thin], ["source", source, moved, 1.5 * thin]];
    for (const only of [0, 1]) {
      for (const [name, what, a, width] of sides) {
        if (!$(`show-${name}`).checked || (only === 0 && !$("show-unmatched").checked)) continue;
        const dim = matches && only === 0;
        const broad = name === "target" && !dim;
        stroke(what, {
          colour: palette[name], a, only, width: dim ? 1.1 * thin : width, ramped: ramped && only === 1,
          alpha: dim ? 0.42 : broad ? 0.5 : 0.95,
        });
      }
    }
  }

  function labelEllipsoid(visible, { camera }) {
    const label = $("ellipsoid-label");
    label.hidden = !visible;
    if (!visible) return;
    const { centre, axes, factor } = scene.ellipsoid;
    const height = Math.max(...axes.map((axis) => Math.abs(axis[2])));
    const at = [...plus(centre, [0, 0, height]), 1];
    const clip = [0, 1, 3].map((row) => at.reduce((sum, x, k) => sum + camera[4 * k + row] * x, 0));
    const x = (1 + clip[0] / clip[2]) / 2 * canvas.clientWidth, y = (1 - clip[1] / clip[2]) / 2 * canvas.clientHeight;
    label.textContent = factor === 1 ? "3σ of the position" : `3σ of the position, enlarged ${factor.toLocaleString("en")} times`;
    label.style.transform = `translate(${x}px, ${y}px) translate(-50%, -140%)`;
  }

  function showScale({ perPixel }) {
    const length = round(120 * perPixel);
    $("scale-bar").style.width = `${length / perPixel}px`;
    $("scale-text").textContent = `${Number(length.toPrecision(1))} · cells of ${Number(ground.cell.toPrecision(1))}`;
  }

  function redraw() {
    if (!state.queued) { state.queued = true; requestAnimationFrame(draw); }
  }

  let rest;
  function moving() {
    state.moving = true;
    clearTimeout(rest);
    const patience = Math.max(180, 2 * state.frameTime); // a slow frame is not the end of the movement
    rest = setTimeout(() => { state.moving = false; state.frameTime = 0; redraw(); }, patience);
    redraw();
  }

  // ---- input ----

  const turn = (x, y) => {
    state.azimuth -= 0.006 * x;
    state.elevation = Math.min(1.5707, Math.max(-1.5707, state.elevation + 0.006 * y));
    moving();
  };
  const move = (x, y) => {
    const { right, up, perPixel } = cameraView();
    state.pan = plus(plus(state.pan, right, -x * perPixel), up, y * perPixel);
    moving();
  };
  const zoom = (factor) => { state.zoom = Math.min(20, Math.max(0.01, state.zoom * factor)); moving(); };
  const lookFrom = (azimuth, elevation) => { Object.assign(state, { azimuth, elevation, zoom: 1, pan: [0, 0, 0] }); redraw(); };

  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = [event.clientX, event.clientY], x = now[0] - before[0], y = now[1] - before[1];
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
      zoom(apart(before) / Math.max(1, apart(now)));
      move(x / 2, y / 2);
    } else if (event.buttons & 2 || event.buttons & 4 || event.shiftKey) move(x, y);
    else turn(x, y);
    pointers.set(event.pointerId, now);
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(0.0015 * Math.max(-200, Math.min(200, event.deltaY))));
  }, { passive: false });
  canvas.addEventListener("dblclick", () => $("fit").click());
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const buttons = { 0: "fit", 7: "above", 1: "front" };
  canvas.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (step) (event.shiftKey ? move : turn)(25 * step[0], 25 * step[1]);
    else if (event.key === "+" || event.key === "=") zoom(0.85);
    else if (event.key === "-") zoom(1.18);
    else if (event.key in buttons) $(buttons[event.key]).click();
    else return;
    event.preventDefault();
  });
  $("fit").onclick = () => lookFrom(-1.05, 0.62);
  $("above").onclick = () => lookFrom(-Math.PI / 2, 1.5707);
  $("front").onclick = () => lookFrom(-Math.PI / 2, 0);

  function progressTo(value) {
    state.progress = value;
    $("progress").value = value;
    moving();
  }
  $("progress").oninput = (event) => progressTo(Number(event.target.value));
  $("play").onclick = () => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return progressTo(state.progress < 0.5 ? 1 : 0);
    const start = performance.now();
    const frame = (now) => {
      const elapsed = Math.min(1, Math.max(0, (now - start) / 1800)); // fraction of the animation
      progressTo(elapsed * elapsed * (3 - 2 * elapsed));
      if (elapsed < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  };

  function choose(index) {
    state.pose = index;
    $("pose").value = String(index);
    if (shownPoses[index]) [source, target].forEach((side, i) => side.colourBy(shownPoses[index].sides[i]));
    for (const button of document.querySelectorAll("button[data-pose]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.pose) === index));
    }
    redraw();
  }
  $("pose").onchange = (event) => choose(Number(event.target.value));
  for (const button of document.querySelectorAll("button[data-pose]")) {
    button.onclick = () => choose(Number(button.dataset.pose));
  }
  for (const box of document.querySelectorAll(".toggles input, #colour")) {
    box.addEventListener("change", () => {
      $("legend").style.visibility = $("show-matches").checked && $("colour").value === "residual" ? "" : "hidden";
      redraw();
    });
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.onclick = async () => {
      const text = $(button.dataset.copy).dataset.text || $(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren($(button.dataset.copy));
        button.textContent = "selected";
      }
    };
  }

  const recolour = () => { readPalette(); draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("beforeprint", () => { readPalette(); resize(); });
  addEventListener("afterprint", () => { readPalette(); resize(); });
  canvas.addEventListener("webglcontextlost", () => {
    $("message").textContent = "The graphics context was lost. Reload the page to draw the maps again.";
    $("message").hidden = false;
  });

  function resize() {
    canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
    canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
    draw();
  }
  readPalette();
  choose(0);
  new ResizeObserver(resize).observe(canvas);
})();
