// The 3D view of the report and the viewer: thousands of lines as screen-space quads, drawn by one small shader program.
// Coordinates are those of the scene's drawing frame and have no unit, so that maps of any size look the same.
"use strict";
const vec = {
  mix: (a, b, s) => a.map((x, i) => x + (b[i] - x) * s),
  plus: (a, b, s = 1) => a.map((x, i) => x + s * b[i]),
  dot: (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2],
  cross: (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]],
  unit: (a) => { const norm = Math.hypot(...a); return a.map((x) => x / norm); },
  /** 1, 2 or 5 times a power of ten, at most the value. */
  round: (value) => {
    const decade = 10 ** Math.floor(Math.log10(value));
    return decade * (value / decade >= 5 ? 5 : value / decade >= 2 ? 2 : 1);
  },
  digits: (value, count = 3) => Number(Number(value).toPrecision(count)).toLocaleString("en", { maximumSignificantDigits: count }),
};
const quaternion = {
  times: ([a, b, c, d], [e, f, g, h]) =>
    [a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g, a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e],
  about: (axis, angle) => [Math.cos(angle / 2), ...axis.map((x) => Math.sin(angle / 2) * x)],
  slerp: (a, b, s) => {
    let cosine = a.reduce((sum, x, i) => sum + x * b[i], 0);
    if (cosine < 0) { b = b.map((x) => -x); cosine = -cosine; }
    if (cosine > 0.9999) return vec.mix(a, b, s);
    const angle = Math.acos(cosine), sine = Math.sin(angle);
    return a.map((x, i) => (Math.sin((1 - s) * angle) * x + Math.sin(s * angle) * b[i]) / sine);
  },
};
const IDENTITY = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);

/** A motion {quaternion, translation, scale} as a column-major matrix. */
function motionMatrix({ quaternion: turn, translation: t, scale = 1 }) {
  const norm = Math.hypot(...turn), [w, x, y, z] = turn.map((value) => value / norm);
  return new Float32Array([
    1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0,
    2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0,
    2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0,
    t[0], t[1], t[2], 1,
  ].map((value, i) => (i < 12 ? scale * value : value)));
}

const apply = (m, [x, y, z]) => [0, 1, 2].map((i) => m[i] * x + m[4 + i] * y + m[8 + i] * z + m[12 + i]);

const TEXTURE_LINES = 1024; // lines in a row of a texture
// Lines are read from textures, not as instances: drawing in software takes far longer for many instances of four corners.
const VERTEX = `#version 300 es
  precision highp sampler2D;
  uniform sampler2D ends, residuals; // of each line two texels, and one
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
    int line = gl_VertexID / 6, place = gl_VertexID - 6 * line; // two triangles for each line
    ivec2 texel = ivec2(line % ${TEXTURE_LINES}, line / ${TEXTURE_LINES});
    float residual = texelFetch(residuals, texel, 0).r;
    if ((only == 0 && residual >= 0.0) || (only == 1 && residual < 0.0)) return;
    vec2 corner = vec2(place == 1 || place == 2 || place == 4 ? 1.0 : 0.0, place == 2 || place == 4 || place == 5 ? 1.0 : -1.0);
    vec3 a = texelFetch(ends, ivec2(2 * texel.x, texel.y), 0).xyz, b = texelFetch(ends, ivec2(2 * texel.x + 1, texel.y), 0).xyz;
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

/** Draws strokes; returns null where there is no WebGL 2. */
function strokePainter(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
  if (!gl) return null;
  const program = gl.createProgram();
  [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]].forEach(([kind, text]) => {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  });
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  const uniform = {};
  for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
    const name = gl.getActiveUniform(program, i).name.replace("[0]", "");
    uniform[name] = gl.getUniformLocation(program, name);
  }
  const texture = (format, width, height) => {
    const handle = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, handle);
    gl.texStorage2D(gl.TEXTURE_2D, 1, format, width, Math.max(1, height));
    for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
    return handle;
  };
  const nothing = gl.createVertexArray();

  /** Lines in GPU memory: six coordinates each, and a residual as a fraction of the colour range, -1 if unmatched. */
  const strokes = (values) => {
    const count = values.length / 6, rows = Math.ceil(count / TEXTURE_LINES);
    const texels = new Float32Array(8 * TEXTURE_LINES * Math.max(1, rows));
    for (let end = 0; end < 2 * count; end++) texels.set(values.subarray(3 * end, 3 * end + 3), 4 * end);
    const ends = texture(gl.RGBA32F, 2 * TEXTURE_LINES, rows);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, 2 * TEXTURE_LINES, Math.max(1, rows), gl.RGBA, gl.FLOAT, texels);
    const residuals = texture(gl.R32F, TEXTURE_LINES, rows);
    const colourBy = (fractions) => {
      const filled = new Float32Array(TEXTURE_LINES * Math.max(1, rows)).fill(-1);
      filled.set(fractions);
      gl.bindTexture(gl.TEXTURE_2D, residuals);
      gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, TEXTURE_LINES, Math.max(1, rows), gl.RED, gl.FLOAT, filled);
    };
    colourBy([]);
    return { count, values, ends, residuals, colourBy, free: () => { gl.deleteTexture(ends); gl.deleteTexture(residuals); } };
  };

  const begin = ({ camera, distance, radius }, background, ramp) => {
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...background, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.useProgram(program);
    gl.bindVertexArray(nothing);
    gl.uniform1i(uniform.ends, 0);
    gl.uniform1i(uniform.residuals, 1);
    gl.uniformMatrix4fv(uniform.camera, false, camera);
    gl.uniform2f(uniform.viewport, canvas.width, canvas.height);
    gl.uniform1f(uniform.near, 0.01 * distance);
    gl.uniform1f(uniform.nearDepth, distance - radius);
    gl.uniform1f(uniform.farDepth, distance + radius);
    gl.uniform3fv(uniform.ramp, ramp);
  };
  const draw = (what, { colour, alpha = 1, width, a = IDENTITY, b = a, only = 2, ramped = false, fade = 0.55, most = Infinity }) => {
    [what.ends, what.residuals].forEach((handle, unit) => {
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_2D, handle);
    });
    gl.activeTexture(gl.TEXTURE0);
    gl.uniformMatrix4fv(uniform.motionA, false, a);
    gl.uniformMatrix4fv(uniform.motionB, false, b);
    gl.uniform4f(uniform.colour, ...colour, alpha);
    gl.uniform1f(uniform.halfWidth, width / 2 * devicePixelRatio);
    gl.uniform1i(uniform.only, only);
    gl.uniform1i(uniform.ramped, ramped ? 1 : 0);
    gl.uniform1f(uniform.fade, fade);
    gl.drawArrays(gl.TRIANGLES, 0, 6 * Math.floor(Math.min(what.count, most)));
  };
  return { strokes, begin, draw };
}

// ---- shapes ----

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

/** A level grid under the lines; the cell size is 1, 2 or 5 times a power of ten. */
function groundLines({ centre, radius }, floor, [first, second, up]) {
  const cell = vec.round(radius / 5), lines = [], cells = Math.ceil(1.3 * radius / cell);
  const middle = [first, second].map((axis) => Math.round(vec.dot(axis, centre) / cell) * cell);
  const at = (x, y) => vec.plus(vec.plus(up.map((value) => floor * value), first, x), second, y);
  for (let k = -cells; k <= cells; k++) {
    const half = Math.sqrt(Math.max(0, cells * cells - k * k)) * cell;
    lines.push(...at(middle[0] + k * cell, middle[1] - half), ...at(middle[0] + k * cell, middle[1] + half));
    lines.push(...at(middle[0] - half, middle[1] + k * cell), ...at(middle[0] + half, middle[1] + k * cell));
  }
  return { cell, lines: new Float32Array(lines) };
}

/** An arrow along an axis and a ring about it, as lists of line ends; the other two axes span the ring. */
function handleLines(axis, other, third, size) {
  const tip = axis.map((x) => size * x), head = [other, third];
  const arrow = [[[0, 0, 0], tip], ...head.flatMap((side) => [-1, 1].map((sign) =>
    [tip, vec.plus(axis.map((x) => 0.86 * size * x), side, sign * 0.05 * size)]))];
  const at = (angle) => vec.plus(other.map((x) => 0.75 * size * Math.cos(angle) * x), third, 0.75 * size * Math.sin(angle));
  const ring = Array.from({ length: 48 }, (_, k) => [at(Math.PI * k / 24), at(Math.PI * (k + 1) / 24)]);
  return { arrow, ring };
}

/** For each pair a point of the source line, and the target point next to it under the motion. */
function connectorLines(pairs, source, target, matrix) {
  const lines = new Float32Array(3 * pairs.length);
  const ends = (values, row) => [values.subarray(6 * row, 6 * row + 3), values.subarray(6 * row + 3, 6 * row + 6)].map((end) => [...end]);
  const nearest = ([a, b], point) => {
    const along = vec.plus(b, a, -1), square = vec.dot(along, along) || 1;
    return Math.min(1, Math.max(0, vec.dot(vec.plus(point, a, -1), along) / square));
  };
  for (let k = 0; k < pairs.length / 2; k++) {
    const own = ends(source, pairs[2 * k]), moved = own.map((end) => apply(matrix, end)), other = ends(target, pairs[2 * k + 1]);
    const onTarget = vec.mix(...other, nearest(other, vec.mix(...moved, 0.5)));
    lines.set(vec.mix(...own, nearest(moved, onTarget)), 6 * k);
    lines.set(onTarget, 6 * k + 3);
  }
  return lines;
}
