// The maps of a scene: camera, drawing, lines under the pointer, and handles to move the source by hand.
"use strict";
const MIN_MOVING_LINES = 1500; // per map, drawn while the view moves and frames are slow; lines are stored longest first
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

/** The view of a canvas; null where there is no WebGL 2. `changed` is called after each frame. */
function sceneView(canvas, changed) {
  const painter = strokePainter(canvas);
  if (painter === null) return null;
  const show = { source: true, target: true, matches: true, unmatched: true, ellipsoid: false, hand: false };
  const state = {
    progress: 1, pose: 0, azimuth: -1.05, elevation: 0.62, zoom: 1, pan: [0, 0, 0], moving: false, queued: false,
    movingLines: 6000, lastTime: 0, frameTime: 0, up: "found", threshold: 1, colour: "residual", picked: null, hand: null,
  };
  let scene = null, sides = {}, poses = [], ellipsoid = null, grid = null, ground = null, palette, rest, picked = null, handles = [];

  // ---- data ----

  function setScene(data, pose = 0) {
    [...Object.values(sides), ...poses.map((shown) => shown.connectors), ellipsoid, grid, picked].forEach((what) => what?.free?.());
    scene = data;
    sides = Object.fromEntries(["source", "target"].map((name) => {
      const side = scene[name], strokes = painter.strokes(new Float32Array(bytes(side.segments)));
      return [name, { ...strokes, name, rows: new Uint32Array(bytes(side.rows)), ids: side.ids }];
    }));
    poses = scene.poses.map((entry) => ({ entry, ready: false }));
    ellipsoid = scene.ellipsoid && painter.strokes(globe(scene.ellipsoid));
    picked = null;
    state.picked = null;
    state.hand = null;
    setUp(state.up);
    choose(Math.min(pose, Math.max(0, poses.length - 1)));
  }

  /** The pairs of a pose, unpacked when it is first shown. */
  function prepared(index) {
    const shown = poses[index];
    if (!shown || shown.ready) return shown;
    const { entry } = shown, pairs = new Uint32Array(bytes(entry.pairs)), residuals = new Float32Array(bytes(entry.residuals));
    const partners = ["source", "target"].map((name) => new Int32Array(sides[name].count).fill(-1));
    const fractions = new Float32Array(residuals.length / 2).map((_, k) => residuals[2 * k] / scene.range);
    for (let k = 0; k < pairs.length / 2; k++) { // pairs that are not drawn come last and have only residuals
      partners[0][pairs[2 * k]] = k;
      partners[1][pairs[2 * k + 1]] = k;
    }
    const matrix = motionMatrix(entry);
    const connectors = painter.strokes(connectorLines(pairs, sides.source.values, sides.target.values, matrix));
    return Object.assign(shown, { ready: true, pairs, residuals, partners, fractions, connectors, widest: Math.max(1, fractions.reduce((a, b) => Math.max(a, b), 0)) });
  }

  /** Whether a pair is within the largest distance that is shown. */
  const within = (shown, k) => shown.fractions[k] <= state.threshold * shown.widest + 1e-9;

  function choose(index) {
    state.pose = index;
    state.hand = null;
    const shown = prepared(index);
    if (shown) {
      const drawn = shown.fractions.subarray(0, shown.connectors.count);
      shown.connectors.colourBy(drawn.map((fraction, k) => (within(shown, k) ? fraction : -1)));
      [sides.source, sides.target].forEach((side, i) =>
        side.colourBy(Float32Array.from(shown.partners[i], (k) => (k >= 0 && within(shown, k) ? shown.fractions[k] : -1))));
    }
    highlight(null);
    redraw();
  }

  /** How many pairs are shown, of how many, and up to which distance. */
  function pairCount() {
    const shown = prepared(state.pose);
    if (!shown) return null;
    const count = shown.fractions.reduce((sum, _, k) => sum + (within(shown, k) ? 1 : 0), 0);
    return { count, all: shown.fractions.length, distance: state.threshold * shown.widest * scene.range, inliers: shown.entry.inliers };
  }

  // ---- which way is up ----

  /** Three axes in the drawing frame: two level ones and up. */
  function basis() {
    if (state.up === "found") return [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    const column = "xyz".indexOf(state.up[1]), sign = state.up[0] === "-" ? -1 : 1;
    const up = scene.axes.map((row) => sign * row[column]);
    const least = up.map(Math.abs).indexOf(Math.min(...up.map(Math.abs)));
    const level = [0, 1, 2].map((i) => (i === least ? 1 : 0));
    const first = vec.unit(vec.plus(level, up, -vec.dot(level, up)));
    return [first, vec.cross(up, first), up];
  }

  /** The axis of the target that points up as found, such as +z; empty if none does. */
  function foundUp() {
    const up = scene.axes[2], column = up.map(Math.abs).indexOf(Math.max(...up.map(Math.abs)));
    return Math.abs(up[column]) > 0.98 ? (up[column] < 0 ? "−" : "+") + "xyz"[column] : "";
  }

  function setUp(up) {
    state.up = up;
    if (!scene) return;
    const axes = basis(), values = sides.target.count ? sides.target.values : sides.source.values, heights = [];
    const stride = 3 * Math.max(1, Math.ceil(values.length / 60000));
    for (let i = 0; i + 2 < values.length; i += stride) heights.push(vec.dot(axes[2], values.subarray(i, i + 3)));
    heights.sort((a, b) => a - b);
    grid?.free();
    ground = groundLines((scene.poses[0] || scene.before).fit, heights[Math.floor(0.02 * heights.length)] || 0, axes);
    grid = painter.strokes(ground.lines);
    handles = [];
    redraw();
  }

  // ---- motion and camera ----

  /** The motion of the source: by hand, or between before and after. */
  function motion() {
    if (show.hand && state.hand) return state.hand;
    const { before } = scene, after = scene.poses[state.pose] || before, s = show.hand ? 1 : state.progress;
    return {
      quaternion: quaternion.slerp(before.quaternion, after.quaternion, s),
      translation: vec.mix(before.translation, after.translation, s),
      scale: (before.scale ?? 1) ** (1 - s) * (after.scale ?? 1) ** s,
    };
  }

  /** The camera; it follows the maps from before to after. */
  function cameraView() {
    const after = (scene.poses[state.pose] || scene.before).fit, s = state.progress;
    const radius = scene.before.fit.radius * (1 - s) + after.radius * s;
    const middle = vec.plus(vec.mix(scene.before.fit.centre, after.centre, s), state.pan);
    const aspect = canvas.width / Math.max(1, canvas.height), half = Math.tan(0.3);
    const distance = radius / Math.sin(Math.atan(half * Math.min(1, aspect))) * state.zoom;
    const level = Math.cos(state.elevation), [first, second, high] = basis();
    const spanned = (x, y, z) => [0, 1, 2].map((i) => x * first[i] + y * second[i] + z * high[i]);
    const back = spanned(level * Math.cos(state.azimuth), level * Math.sin(state.azimuth), Math.sin(state.elevation));
    const right = spanned(-Math.sin(state.azimuth), Math.cos(state.azimuth), 0), up = vec.cross(back, right);
    const from = vec.plus(middle, back, distance), f = 1 / half;
    const row = (axis, scale) => [...axis.map((x) => scale * x), -scale * vec.dot(axis, from)];
    const [r0, r1, r3] = [row(right, f / aspect), row(up, f), row(back, -1)];
    const camera = new Float32Array([0, 1, 2, 3].flatMap((i) => [r0[i], r1[i], 0, r3[i]]));
    return { camera, distance, radius, right, up, perPixel: 2 * distance * half / Math.max(1, canvas.clientHeight) };
  }

  /** Where a point of the drawing frame is seen, in CSS pixels, and its depth. */
  function project(point, camera) {
    const [x, y, w] = [0, 1, 3].map((row) => camera[row] * point[0] + camera[4 + row] * point[1] + camera[8 + row] * point[2] + camera[12 + row]);
    return [(1 + x / w) / 2 * canvas.clientWidth, (1 - y / w) / 2 * canvas.clientHeight, w];
  }

  // ---- lines under the pointer ----

  /** Distance in pixels of a point from a segment on the screen. */
  function pixelsFrom(x, y, [ax, ay], [bx, by]) {
    const dx = bx - ax, dy = by - ay, square = dx * dx + dy * dy;
    const s = square > 0 ? Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / square)) : 0;
    return Math.hypot(ax + s * dx - x, ay + s * dy - y);
  }

  /** The line nearest to a place on the canvas, at most `limit` pixels away, with what is known of it; or null. */
  function pick(x, y, limit = 9) {
    const { camera, distance } = cameraView(), shown = prepared(state.pose), near = 0.01 * distance;
    let best = null;
    for (const [index, side] of [sides.source, sides.target].entries()) {
      if (!show[side.name]) continue;
      const matrix = index === 0 ? motionMatrix(motion()) : IDENTITY;
      for (let row = 0; row < side.count; row++) {
        const pair = shown ? shown.partners[index][row] : -1, matched = pair >= 0 && within(shown, pair);
        if (!matched && !show.unmatched) continue;
        const v = side.values, i = 6 * row;
        const a = project(apply(matrix, [v[i], v[i + 1], v[i + 2]]), camera);
        const b = project(apply(matrix, [v[i + 3], v[i + 4], v[i + 5]]), camera);
        if (a[2] < near || b[2] < near) continue;
        const pixels = pixelsFrom(x, y, a, b);
        if (pixels < (best ? best.pixels : limit)) best = { pixels, side: index, row, pair: matched ? pair : -1 };
      }
    }
    return best && described(best, shown);
  }

  function described({ side, row, pair }, shown) {
    const own = [sides.source, sides.target][side], other = [sides.target, sides.source][side], v = own.values, i = 6 * row;
    const scale = side === 0 ? scene.poses[state.pose]?.scale ?? 1 : 1;
    const picture = { side, row, pair, name: own.name, number: own.rows[row], id: own.ids?.[own.rows[row]] };
    picture.length = Math.hypot(v[i] - v[i + 3], v[i + 1] - v[i + 4], v[i + 2] - v[i + 5]) * scale;
    if (pair >= 0) {
      const partner = shown.pairs[2 * pair + (1 - side)];
      Object.assign(picture, { distance: shown.residuals[2 * pair], angle: shown.residuals[2 * pair + 1], partner, partnerNumber: other.rows[partner] });
    }
    return picture;
  }

  /** Draw a line and its partner broad, or none. */
  function highlight(line) {
    if (line?.side === state.picked?.side && line?.row === state.picked?.row) return;
    picked?.free();
    state.picked = line;
    const ends = (side, row) => painter.strokes(side.values.slice(6 * row, 6 * row + 6));
    picked = line && { parts: [[line.side, line.row], ...(line.pair >= 0 ? [[1 - line.side, line.partner]] : [])]
      .map(([side, row]) => ({ side, strokes: ends([sides.source, sides.target][side], row) })) };
    if (picked) picked.free = () => picked.parts.forEach((part) => part.strokes.free());
    redraw();
  }

  // ---- moving the source by hand ----

  /** Handles at the centre of the source: for each axis an arrow to move along and a ring to turn about. */
  function currentHandles() {
    if (!handles.length) {
      const size = 0.4 * (scene.poses[state.pose] || scene.before).fit.radius, axes = basis();
      handles = axes.map((axis, k) => {
        const lines = handleLines(axis, axes[(k + 1) % 3], axes[(k + 2) % 3], size);
        return { axis, lines, strokes: painter.strokes(new Float32Array([...lines.arrow, ...lines.ring].flat(2))) };
      });
    }
    return handles;
  }

  /** The handle under the pointer: what it does, its axis, and the place that is held. */
  function grab(x, y) {
    if (!show.hand) return null;
    const { camera } = cameraView(), centre = motion().translation;
    let best = null;
    for (const { axis, lines } of currentHandles()) {
      for (const kind of ["arrow", "ring"]) {
        for (const ends of lines[kind]) {
          const [a, b] = ends.map((end) => project(vec.plus(centre, end), camera)), pixels = pixelsFrom(x, y, a, b);
          if (pixels < (best ? best.pixels : 12)) best = { pixels, kind, axis, held: ends[1] };
        }
      }
    }
    return best;
  }

  /** Move or turn the source by a movement of the pointer in pixels. */
  function pull(handle, x, y) {
    const { camera } = cameraView(), now = motion(), at = vec.plus(now.translation, handle.held);
    const direction = handle.kind === "arrow" ? handle.axis : vec.cross(handle.axis, handle.held);
    const step = 1e-3 * cameraView().radius / Math.max(1e-12, Math.hypot(...direction));
    const [from, to] = [at, vec.plus(at, direction, step)].map((point) => project(point, camera));
    const across = [(to[0] - from[0]) / step, (to[1] - from[1]) / step], square = across[0] ** 2 + across[1] ** 2;
    if (!(square > 0)) return;
    const amount = (x * across[0] + y * across[1]) / square;
    if (handle.kind === "arrow") state.hand = { ...now, translation: vec.plus(now.translation, handle.axis, amount) };
    else state.hand = { ...now, quaternion: quaternion.times(quaternion.about(handle.axis, amount), now.quaternion) };
    moving();
  }

  // ---- drawing ----

  function readPalette() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => {
      const hex = style.getPropertyValue(`--${name}`).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
      return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
    };
    palette = Object.fromEntries(["stage", "source", "target", "ellipsoid", "grid", "ink", "x", "y", "z"].map((name) => [name, colour(name)]));
    palette.ramp = new Float32Array([0, 1, 2, 3, 4].flatMap((i) => colour(`r${i}`)));
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
    if (!scene || !palette) return;
    adapt();
    const view = cameraView(), moved = motionMatrix(motion()), shown = prepared(state.pose);
    const stroke = (what, style) => painter.draw(what, { most: state.moving ? state.movingLines : Infinity, ...style });
    painter.begin(view, palette.stage, palette.ramp);
    stroke(grid, { colour: palette.grid, alpha: 0.55, width: 1, fade: 0.8 });
    drawMaps(stroke, moved, shown);
    if (shown && show.matches && show.source && show.target && !state.hand) {
      stroke(shown.connectors, { colour: palette.ellipsoid, alpha: 0.35 + 0.5 * state.progress, width: 1, a: moved, b: IDENTITY, only: 1, ramped: true });
    }
    for (const { side, strokes } of picked?.parts ?? []) {
      stroke(strokes, { colour: palette.ink, width: side === 0 ? 4 : 6, alpha: side === 0 ? 1 : 0.6, a: side === 0 ? moved : IDENTITY, fade: 0 });
    }
    if (ellipsoid && show.ellipsoid) stroke(ellipsoid, { colour: palette.ellipsoid, width: 1.2, fade: 0.3 });
    if (show.hand) drawHandles(stroke);
    canvas.dataset.frame = state.moving ? "moving" : "still"; // so that a test need not guess
    changed(view);
  }

  /** Unmatched lines first and dim; the target broad and pale, so that a source line on top does not hide it. */
  function drawMaps(stroke, moved, shown) {
    const matches = Boolean(shown) && show.matches && !state.hand, ramped = matches && state.colour === "residual";
    const crowd = Math.sqrt(3000 / Math.max(sides.source.count, sides.target.count, 1)) / state.zoom; // many lines in few pixels are drawn thin
    const thin = Math.min(1, Math.max(0.4, crowd));
    const both = [[sides.target, IDENTITY, 3 * thin], [sides.source, moved, 1.5 * thin]];
    for (const only of [0, 1]) {
      for (const [side, a, width] of both) {
        if (!show[side.name] || (only === 0 && !show.unmatched) || !side.count) continue;
        const dim = matches && only === 0, broad = side.name === "target" && !dim;
        stroke(side, {
          colour: palette[side.name], a, only, width: dim ? 1.1 * thin : width, ramped: ramped && only === 1,
          alpha: dim ? 0.42 : broad ? 0.5 : 0.95,
        });
      }
    }
  }

  function drawHandles(stroke) {
    const at = motionMatrix({ quaternion: [1, 0, 0, 0], translation: motion().translation });
    currentHandles().forEach(({ strokes }, k) => stroke(strokes, { colour: palette["xyz"[k]], width: 3, a: at, fade: 0.2 }));
  }

  function redraw() {
    if (!state.queued) { state.queued = true; requestAnimationFrame(draw); }
  }

  function moving() {
    state.moving = true;
    clearTimeout(rest);
    const patience = Math.max(180, 2 * state.frameTime); // a slow frame is not the end of the movement
    rest = setTimeout(() => { state.moving = false; state.frameTime = 0; redraw(); }, patience);
    redraw();
  }

  // ---- camera controls ----

  const turn = (x, y) => {
    state.azimuth -= 0.006 * x;
    state.elevation = Math.min(1.5707, Math.max(-1.5707, state.elevation + 0.006 * y));
    moving();
  };
  const move = (x, y) => {
    const { right, up, perPixel } = cameraView();
    state.pan = vec.plus(vec.plus(state.pan, right, -x * perPixel), up, y * perPixel);
    moving();
  };
  const zoom = (factor) => { state.zoom = Math.min(20, Math.max(0.01, state.zoom * factor)); moving(); };
  const lookFrom = (azimuth, elevation) => { Object.assign(state, { azimuth, elevation, zoom: 1, pan: [0, 0, 0] }); redraw(); };

  function resize() {
    canvas.width = Math.round(canvas.clientWidth * devicePixelRatio);
    canvas.height = Math.round(canvas.clientHeight * devicePixelRatio);
    draw();
  }
  const recolour = () => { readPalette(); draw(); };
  readPalette();
  state.moving = true; // the first picture is a quick one
  new ResizeObserver(() => { resize(); moving(); }).observe(canvas);
  return {
    state, show, setScene, choose, pairCount, setUp, foundUp, pick, highlight, grab, pull, motion, project, redraw, moving, turn, move,
    zoom, lookFrom, resize, recolour, get scene() { return scene; }, get ground() { return ground; },
  };
}
