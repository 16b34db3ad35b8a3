// What an interactive page does. It is put into one file with three.js, the data and the style by
// page.py, which says what the data are; it fetches nothing.
"use strict";
{
  const POINTS_A_ROW = 2048; // of a texture; every WebGL 2 has as many
  const CORNERS = 6; // of the two triangles that draw a segment
  const FIRST_BUDGET = 200_000; // segments that are drawn while the camera moves, to begin with
  const LEAST_BUDGET = 5_000;
  const FRAMES_AT_REST = 60; // as long may all take: a second
  const FRAME_MS = 1000 / 60;
  const REST_MS = 180; // without a movement, after which everything is drawn
  const STILL_SEGMENTS = 250_000; // of a picture without WebGL
  const MIN_COSINE = 0.35; // between an axis and the way to an edge, below which it has no letter
  const FORWARD = [0.6, -0.65, -0.35]; // from above, the front left
  const THEMES = { dark: [0, 0, 0], light: [1, 1, 1] };
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const SIDES = { Front: [[0, -1, 0], [0, 0, 1]], Left: [[1, 0, 0], [0, 0, 1]], Above: [[0, 0, -1], [0, 1, 0]] };

  // -- the data ---------------------------------------------------------------------------------

  const element = (id) => document.getElementById(id);

  function make(tag, text = "", properties = {}) {
    const made = Object.assign(document.createElement(tag), properties);
    made.textContent = text; // names are text, never markup
    return made;
  }

  function say(text) {
    element("status").textContent = text;
    element("status").hidden = !text;
  }

  function fail(text) {
    say(text);
    document.documentElement.dataset.state = "failed";
  }

  async function inflated(id) {
    const text = element(id).textContent;
    let bytes;
    if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(text);
    else {
      const letters = atob(text);
      bytes = new Uint8Array(letters.length);
      for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
    }
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // Whole numbers as page.py packs them: columns one after the other, of each the lowest bytes of
  // all rows, then the next; 0, 1, 2, 3, 4 stand for 0, -1, 1, -2, 2.
  async function unpacked({ id, rows, columns, planes }) {
    const bytes = await inflated(id);
    if (bytes.length !== rows * columns * planes) throw new RangeError("too short");
    const numbers = new Int32Array(rows * columns);
    for (let column = 0; column < columns; column++)
      for (let row = 0; row < rows; row++) {
        let folded = 0;
        for (let plane = planes - 1; plane >= 0; plane--)
          folded = (folded << 8) | bytes[(column * planes + plane) * rows + row];
        numbers[row * columns + column] = (folded >>> 1) ^ -(folded & 1);
      }
    return numbers;
  }

  // Points of a texture: x, y, z in steps from the lowest, and whether a line comes here (1) and
  // goes on (2). Stored are second differences along each streamline.
  async function pointsOf(bundle) {
    const counts = await unpacked(bundle.counts);
    const numbers = await unpacked(bundle.points);
    const n = bundle.points.rows;
    const texels = new Uint16Array(4 * POINTS_A_ROW * Math.max(Math.ceil(n / POINTS_A_ROW), 1));
    const start = [0, 0, 0];
    let row = 0;
    for (const count of counts) {
      const first = row, last = row + count - 1;
      for (let axis = 0; axis < 3; axis++) {
        let at = (start[axis] += numbers[3 * first + axis]), way = 0;
        texels[4 * first + axis] = at;
        for (let i = first + 1; i <= last; i++) {
          way += numbers[3 * i + axis];
          texels[4 * i + axis] = at += way;
        }
      }
      for (let i = first; i <= last; i++) texels[4 * i + 3] = (i > first) | ((i < last) << 1);
      row += count;
    }
    if (row !== n) throw new RangeError("counts and points differ");
    return texels;
  }

  async function coloursOf(bundle) {
    const numbers = await unpacked(bundle.colours);
    const texels = new Uint8Array(4 * POINTS_A_ROW * Math.max(Math.ceil(bundle.points.rows / POINTS_A_ROW), 1));
    for (let channel = 0; channel < 3; channel++)
      for (let i = 0, at = 0; i < bundle.points.rows; i++)
        texels[4 * i + channel] = at += numbers[3 * i + channel];
    return texels;
  }

  async function voxelsOf(volume) {
    const numbers = await unpacked(volume.voxels);
    const voxels = new Uint8Array(numbers.length);
    for (let i = 0, at = 0; i < numbers.length; i++) voxels[i] = at += numbers[i];
    return voxels;
  }

  const rgbOf = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16) / 255);

  // -- how it is drawn --------------------------------------------------------------------------

  const LINES = {
    vertexShader: `
      precision highp float;
      precision highp int;
      precision highp usampler2D;
      uniform mat4 viewMatrix, projectionMatrix;
      uniform usampler2D points;
      uniform sampler2D colours;
      uniform vec3 low, colour, middle;
      uniform vec2 canvas;
      uniform float size, width, radius;
      uniform int colouring;
      out vec3 tint;
      out float across, far;

      uvec4 at(int i) { return texelFetch(points, ivec2(i % ${POINTS_A_ROW}, i / ${POINTS_A_ROW}), 0); }
      vec3 mm(uvec4 point) { return vec3(point.xyz) * size + low; }

      void main() {
        int segment = gl_VertexID / ${CORNERS}, corner = gl_VertexID % ${CORNERS};
        uvec4 point = at(segment);
        if ((point.a & 2u) == 0u) {  // the last of its streamline
          gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
          return;
        }
        int i = segment + int(corner == 1 || corner == 2 || corner == 4);
        float side = corner == 2 || corner == 4 || corner == 5 ? 1.0 : -1.0;
        if (i > segment) point = at(i);
        vec3 here = mm(point);
        vec3 to = (point.a & 1u) == 0u ? vec3(0.0) : here - mm(at(i - 1));
        vec3 on = (point.a & 2u) == 0u ? vec3(0.0) : mm(at(i + 1)) - here;

        mat4 view = projectionMatrix * viewMatrix;
        vec2 way = (view * vec4(to + on, 0.0)).xy * canvas;
        float reach = length(way);
        vec2 normal = reach > 1e-6 ? vec2(-way.y, way.x) / reach : vec2(1.0, 0.0);
        gl_Position = view * vec4(here, 1.0);
        gl_Position.xy += side * normal * width / canvas;
        across = side;

        vec3 parts = abs(to) + abs(on);
        float sum = length(parts);
        vec3 by_direction = sum > 0.0 ? parts / sum : vec3(0.5);
        vec3 by_point = texelFetch(colours, ivec2(i % ${POINTS_A_ROW}, i / ${POINTS_A_ROW}), 0).rgb;
        tint = colouring == 0 ? by_direction : colouring == 1 ? colour : by_point;
        vec3 sight = vec3(viewMatrix[0][2], viewMatrix[1][2], viewMatrix[2][2]);
        float seen = dot(sight, to + on) / max(length(to + on), 1e-6);
        tint *= 0.4 + 0.6 * sqrt(max(1.0 - seen * seen, 0.0));  // darker where it comes at the eye
        far = clamp(0.5 - 0.5 * dot(sight, here - middle) / radius, 0.0, 1.0);
      }`,
    fragmentShader: `
      precision highp float;
      in vec3 tint;
      in float across, far;
      uniform float opacity, width;
      uniform vec3 ground;
      out vec4 painted;
      void main() {
        float edge = width > 2.5 ? 1.0 - 0.45 * across * across * across * across : 1.0;
        painted = vec4(mix(tint * edge, ground, 0.4 * far), opacity);
      }`,
  };
  const SLICES = {
    vertexShader: `
      precision highp float;
      uniform mat4 viewMatrix, projectionMatrix, affine;
      uniform vec3 shape;
      uniform int axis;
      uniform float index;
      out vec3 within;
      in vec3 position;
      void main() {
        vec3 voxel = position * shape - 0.5;
        voxel[axis] = index;
        within = (voxel + 0.5) / shape;
        gl_Position = projectionMatrix * viewMatrix * affine * vec4(voxel, 1.0);
      }`,
    fragmentShader: `
      precision highp float;
      precision highp int;
      precision highp sampler3D;
      uniform sampler3D voxels;
      uniform vec3 shape;
      in vec3 within;
      out vec4 painted;
      void main() {  // between the voxels of the body alone: around it they are 0
        vec3 voxel = within * shape - 0.5, last = shape - 1.0, first = floor(voxel);
        float sum = 0.0, weights = 0.0;
        for (int corner = 0; corner < 8; corner++) {
          vec3 end = vec3(corner & 1, (corner >> 1) & 1, corner >> 2);
          vec3 near = 1.0 - abs(voxel - first - end);
          float shade = texelFetch(voxels, ivec3(clamp(first + end, vec3(0.0), last)), 0).r;
          float weight = near.x * near.y * near.z * float(shade > 0.0);
          sum += weight * shade;
          weights += weight;
        }
        if (weights < 0.5) discard;
        painted = vec4(vec3(sum / weights), 1.0);
      }`,
  };

  class Drawing {
    constructor(page, canvas) {
      this.page = page;
      this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
      this.scene = new THREE.Scene();
      this.camera = new THREE.OrthographicCamera();
      this.ground = { value: new THREE.Vector3() };
      this.screen = { value: new THREE.Vector2(1, 1) };
      this.lines = [];
      this.planes = [];
      this.budget = this.n_drawn = FIRST_BUDGET;
    }

    material(shaders, uniforms, more = {}) {
      return new THREE.RawShaderMaterial({
        glslVersion: THREE.GLSL3, side: THREE.DoubleSide, uniforms, ...shaders, ...more,
      });
    }

    // Put another bundle in the place of the one that was tracked last, or none.
    replace(bundle, texels, step) {
      if (this.tracked) {
        this.scene.remove(this.tracked);
        this.lines = this.lines.filter((mesh) => mesh !== this.tracked);
        for (const name of ["points", "colours"]) this.tracked.material.uniforms[name].value.dispose();
        this.tracked.material.dispose();
        this.tracked = null;
      }
      if (!bundle) return;
      this.addBundle(bundle, texels, null);
      this.tracked = this.lines.at(-1);
      this.tracked.material.uniforms.size.value = step;
    }

    addBundle(bundle, texels, colours) {
      const height = texels.length / 4 / POINTS_A_ROW;
      if (height > this.renderer.capabilities.maxTextureSize)
        throw new RangeError("more points than this graphics card takes");
      const points = new THREE.DataTexture(
        texels, POINTS_A_ROW, height, THREE.RGBAIntegerFormat, THREE.UnsignedShortType);
      points.internalFormat = "RGBA16UI";
      points.needsUpdate = true;
      const paint = new THREE.DataTexture(
        colours ?? new Uint8Array(4), colours ? POINTS_A_ROW : 1, colours ? height : 1);
      paint.needsUpdate = true;
      const one = bundle.colour.startsWith("#") ? rgbOf(bundle.colour) : [0.5, 0.5, 0.5];
      const isSolid = bundle.opacity >= 1;
      const material = this.material(LINES, {
        points: { value: points },
        colours: { value: paint },
        low: { value: new THREE.Vector3(...bundle.low) },
        middle: { value: this.page.middle },
        radius: { value: this.page.radius },
        size: { value: this.page.step_mm },
        colour: { value: new THREE.Vector3(...one) },
        colouring: { value: colours ? 2 : bundle.colour === "direction" ? 0 : 1 },
        width: { value: bundle.width },
        opacity: { value: bundle.opacity },
        ground: this.ground,
        canvas: this.screen,
      }, { transparent: !isSolid, depthWrite: isSolid });
      const mesh = new THREE.Mesh(new THREE.BufferGeometry(), material);
      mesh.frustumCulled = false;
      mesh.userData = { segments: Math.max(bundle.points.rows - 1, 0), width: bundle.width };
      mesh.visible = bundle.visible;
      this.lines.push(mesh);
      this.scene.add(mesh);
    }

    addVolume(volume, voxels) {
      const texture = new THREE.Data3DTexture(voxels, ...volume.shape);
      texture.format = THREE.RedFormat;
      texture.unpackAlignment = 1;
      texture.needsUpdate = true;
      const corners = new Float32Array([0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
      for (let axis = 0; axis < 3; axis++) {
        const [u, v] = [0, 1, 2].filter((other) => other !== axis);
        corners.fill(0);
        [[0, 0], [1, 0], [1, 1], [0, 1]].forEach(([a, b], i) => {
          corners[3 * i + u] = a;
          corners[3 * i + v] = b;
        });
        const geometry = new THREE.BufferGeometry();
        geometry.setAttribute("position", new THREE.BufferAttribute(corners.slice(), 3));
        geometry.setIndex([0, 1, 2, 0, 2, 3]);
        const mesh = new THREE.Mesh(geometry, this.material(SLICES, {
          voxels: { value: texture },
          affine: { value: new THREE.Matrix4().set(...volume.affine.flat()) },
          shape: { value: new THREE.Vector3(...volume.shape) },
          axis: { value: axis },
          index: { value: volume.at[axis] },
        }));
        mesh.frustumCulled = false;
        mesh.visible = volume.visible[axis];
        this.planes.push(mesh);
        this.scene.add(mesh);
      }
    }

    setSlice(axis, index) { this.planes[axis].material.uniforms.index.value = index; }
    show(number, isVisible) { this.lines[number].visible = isVisible; }
    showSlice(axis, isVisible) { this.planes[axis].visible = isVisible; }

    get n_visible() { return this.lines.reduce((sum, mesh) => sum + mesh.visible * mesh.userData.segments, 0); }

    // See how quick this graphics card is, which may be none, before it is given everything to draw.
    measure(view) {
      if (this.n_visible <= FIRST_BUDGET) return;
      const gl = this.renderer.getContext();
      let late;
      for (const budget of [LEAST_BUDGET, FIRST_BUDGET]) { // first shaders are compiled
        const begun = performance.now();
        this.budget = budget;
        this.draw(view, true);
        gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
        late = performance.now() - begun;
      }
      this.budget = Math.max(LEAST_BUDGET, FIRST_BUDGET * Math.min(1, FRAME_MS / late));
    }

    // Draw what a view sees; while it moves as many segments as stay smooth, an even part of each.
    // Return which part that is.
    draw(view, isMoving) {
      const { renderer, camera } = this;
      const { clientWidth: width, clientHeight: height } = renderer.domElement;
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      const size = renderer.getDrawingBufferSize(new THREE.Vector2());
      if (size.x !== Math.floor(width * ratio) || size.y !== Math.floor(height * ratio)) {
        renderer.setPixelRatio(ratio);
        renderer.setSize(width, height, false);
      }
      renderer.getDrawingBufferSize(this.screen.value);
      const half = view.height / 2, reach = 4 * this.page.radius + view.height;
      Object.assign(camera, { top: half, bottom: -half, near: 0, far: 2 * reach });
      camera.right = (half * width) / Math.max(height, 1);
      camera.left = -camera.right;
      camera.quaternion.copy(view.turn);
      camera.position.set(0, 0, reach).applyQuaternion(view.turn).add(view.centre);
      camera.updateProjectionMatrix();
      const all = this.n_visible, most = isMoving ? this.budget : FRAMES_AT_REST * this.budget;
      const part = Math.min(1, most / Math.max(all, 1));
      if (isMoving) this.n_drawn = part * all;
      for (const mesh of this.lines) {
        mesh.geometry.setDrawRange(0, CORNERS * Math.ceil(part * mesh.userData.segments));
        mesh.material.uniforms.width.value = mesh.userData.width * ratio;
      }
      this.ground.value.set(...view.ground);
      renderer.setClearColor(new THREE.Color().setRGB(...view.ground, THREE.LinearSRGBColorSpace));
      renderer.outputColorSpace = THREE.LinearSRGBColorSpace;
      renderer.render(this.scene, camera);
      return part;
    }

    // Fewer segments where a frame came late after it was asked for, more where it came in time.
    learn(lateMs) {
      const factor = lateMs > 1.4 * FRAME_MS ? Math.max(FRAME_MS / lateMs, 0.1) : lateMs < 1.1 * FRAME_MS ? 1.15 : 1;
      const next = Math.min(this.budget, this.n_drawn) * factor;
      this.budget = Math.max(factor < 1 ? LEAST_BUDGET : this.budget, next);
    }
  }

  // A picture without WebGL: the same view, the far before the near.
  class Still {
    constructor(page, canvas) {
      Object.assign(this, { page, canvas, bundles: [], volume: null });
    }

    addBundle(bundle, texels, colours) {
      this.bundles.push({ bundle, texels, colours, visible: bundle.visible });
    }

    addVolume(volume, voxels) {
      this.volume = { ...volume, voxels, at: [...volume.at], visible: [...volume.visible] };
    }

    setSlice(axis, index) { this.volume.at[axis] = index; }
    show(number, isVisible) { this.bundles[number].visible = isVisible; }
    showSlice(axis, isVisible) { this.volume.visible[axis] = isVisible; }
    measure() {}
    learn() {}

    draw(view, isMoving) {
      if (isMoving) return 1; // it takes a while
      const { canvas, page } = this;
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      canvas.width = canvas.clientWidth * ratio;
      canvas.height = canvas.clientHeight * ratio;
      const paper = canvas.getContext("2d");
      paper.fillStyle = css(view.ground);
      paper.fillRect(0, 0, canvas.width, canvas.height);
      const scale = canvas.height / view.height;
      const [right, up, back] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map((axis) =>
        new THREE.Vector3(...axis).applyQuaternion(view.turn));
      const middle = [canvas.width / 2 - scale * right.dot(view.centre), canvas.height / 2 + scale * up.dot(view.centre)];
      const project = (mm) => [middle[0] + scale * right.dot(mm), middle[1] - scale * up.dot(mm)];
      if (this.volume) this.drawSlices(paper, project);
      const pieces = [];
      const shown = this.bundles.filter((each) => each.visible);
      const share = STILL_SEGMENTS / Math.max(shown.length, 1);
      for (const { bundle, texels, colours } of shown) {
        const n = Math.min(bundle.points.rows - 1, share);
        const mm = (i) => new THREE.Vector3(texels[4 * i], texels[4 * i + 1], texels[4 * i + 2])
          .multiplyScalar(page.step_mm).add(new THREE.Vector3(...bundle.low));
        for (let i = 0; i < n; i++) {
          if (!(texels[4 * i + 3] & 2)) continue;
          const from = mm(i), to = mm(i + 1), way = to.clone().sub(from).normalize();
          const rgb = colours ? [0, 1, 2].map((k) => colours[4 * i + k] / 255)
            : bundle.colour === "direction" ? [way.x, way.y, way.z].map(Math.abs) : rgbOf(bundle.colour);
          const light = 0.4 + 0.6 * Math.sqrt(Math.max(1 - back.dot(way) ** 2, 0));
          pieces.push([back.dot(from), project(from), project(to), css(rgb, light), bundle.width * ratio]);
        }
      }
      pieces.sort((one, other) => one[0] - other[0]);
      for (const [, from, to, colour, width] of pieces) {
        paper.strokeStyle = colour;
        paper.lineWidth = width;
        paper.beginPath();
        paper.moveTo(...from);
        paper.lineTo(...to);
        paper.stroke();
      }
      return 1;
    }

    drawSlices(paper, project) {
      const { shape, affine, voxels, at, visible } = this.volume;
      const matrix = new THREE.Matrix4().set(...affine.flat());
      for (let axis = 0; axis < 3; axis++) {
        if (!visible[axis]) continue;
        const [u, v] = [0, 1, 2].filter((other) => other !== axis);
        const picture = new ImageData(shape[u], shape[v]);
        const strides = [1, shape[0], shape[0] * shape[1]];
        for (let j = 0; j < shape[v]; j++)
          for (let i = 0; i < shape[u]; i++) {
            const shade = voxels[i * strides[u] + j * strides[v] + at[axis] * strides[axis]];
            picture.data.set([shade, shade, shade, shade > 4 ? 255 : 0], 4 * (i + shape[u] * j));
          }
        const sheet = new OffscreenCanvas(shape[u], shape[v]);
        sheet.getContext("2d").putImageData(picture, 0, 0);
        const corner = (i, j) => {
          const voxel = [0, 0, 0];
          [voxel[axis], voxel[u], voxel[v]] = [at[axis], i - 0.5, j - 0.5];
          return project(new THREE.Vector3(...voxel).applyMatrix4(matrix));
        };
        const [origin, along, down] = [corner(0, 0), corner(1, 0), corner(0, 1)];
        paper.setTransform(along[0] - origin[0], along[1] - origin[1], down[0] - origin[0], down[1] - origin[1], ...origin);
        paper.drawImage(sheet, 0, 0);
        paper.resetTransform();
      }
    }
  }

  const css = (rgb, light = 1) => `rgb(${rgb.map((x) => Math.round(255 * light * x)).join(" ")})`;

  // -- tracking ---------------------------------------------------------------------------------

  // Track what is asked for at the other end of a port, the newest first. A worker is made of this
  // function's text, which therefore takes nothing from around it.
  //
  // Asked for is { id, shift, chosen, isMoved }: seeds are those of the recipe, all moved alike by so
  // many mm; where neither they nor a parameter were moved, streamlines are the recipe's to the bit.
  // Answers have the id: first the streamlines of an even part of the seeds, after a time that is too
  // short to wait for, then more, in the end all with their digest. Something newer ends that, but for
  // the first answer: else nothing would be seen while a hand moves.
  function serve(port) {
    const FIRST_MS = 20, SLICE_MS = 8, BETWEEN_MS = 150;
    const GOLDEN = 0.6180339887498949;
    let setup, content, buffer, kernel, positions, views, order;
    let newest = null, run = null;

    async function open(given) {
      setup = given;
      content = setup.content;
      const memory = new WebAssembly.Memory({ initial: Math.ceil(content.bytes / 65536) });
      const { instance } = await WebAssembly.instantiate(setup.kernel, { env: { memory, bring() {} } });
      if (instance.exports.__heap_base.value > content.base) throw new RangeError("no room for its tables");
      kernel = instance.exports.track;
      buffer = memory.buffer;
      new Uint8Array(buffer, content.base).set(setup.image);
      for (const [address, packed] of content.structures)
        new Uint8Array(buffer, address).set(packed.match(/../g).map((byte) => parseInt(byte, 16)));
      if (content.tissues) putTissues(content.tissues, new Float32Array(setup.tissues.buffer));
      views = new DataView(buffer);
      positions = new Float32Array(setup.positions.buffer);
      const place = (batch) => (batch * GOLDEN) % 1;
      order = [...Array(Math.ceil(content.n_seeds / content.batch_size)).keys()].sort((a, b) => place(a) - place(b));
    }

    // The box of them that is in the page: of the rest there are zeros, of which a system keeps no page.
    function putTissues({ at, shape: [, ny, nz], first: [x0, y0, z0], size: [nx, my, mz] }, box) {
      for (let x = 0; x < nx; x++)
        for (let y = 0; y < my; y++)
          new Float32Array(buffer, at + 20 * (((x0 + x) * ny + y0 + y) * nz + z0), 5 * mz)
            .set(box.subarray(5 * mz * (x * my + y), 5 * mz * (x * my + y + 1)));
    }

    function begin(wanted) {
      const { chosen } = wanted, threshold = content.thresholds[chosen.threshold];
      const [field, settings] = content.cones[chosen.angle][+(threshold > 0)];
      views.setFloat32(settings + content.threshold_at, threshold, true);
      views.setFloat32(settings + content.floor_at, chosen.floor * content.floor_unit, true);
      run = { ...wanted, field, settings, next: 0, n_points: 0, n_lines: 0, parts: [], told: 0, wait: BETWEEN_MS };
    }

    // Track the seeds of one batch.
    function step() {
      const { arrays, batch, batch_size: size } = content, number = order[run.next++];
      const first = number * size, n = Math.min(size, content.n_seeds - first);
      const seeds = new Float32Array(buffer, arrays.positions, 3 * n);
      for (let i = 0; i < 3 * n; i++) seeds[i] = positions[3 * first + i] + run.shift[i % 3];
      views.setUint32(arrays.next, 0, true);
      views.setUint32(arrays.next_block, 0, true);
      new Uint8Array(buffer, arrays.tally, 8 * content.n_reasons).fill(0);
      views.setUint32(batch + content.first_stream, content.first + first, true);
      views.setUint32(batch + content.n_seeds_at, n, true);
      kernel(run.field, run.settings, content.regions, batch);
      const [n_points, n_lines] = [0, 8].map((at) => Number(views.getBigInt64(arrays.totals + at, true)));
      const offsets = [...new BigInt64Array(buffer, arrays.line_offsets, n_lines + 1)].map(Number);
      const counts = offsets.slice(1).map((end, line) => end - offsets[line]);
      run.parts[number] = { points: new Float32Array(buffer, arrays.points, 3 * n_points).slice(), counts };
      run.n_points += n_points;
      run.n_lines += n_lines;
    }

    // SHA-256 of the points, then of where streamlines begin and end, as Tractogram.digest(); null
    // where a browser takes no file for safe.
    async function digest({ parts, n_points, n_lines }) {
      if (!globalThis.crypto?.subtle) return null;
      const bytes = new Uint8Array(12 * n_points + 8 * (n_lines + 1)), view = new DataView(bytes.buffer, 12 * n_points);
      let at = 0, line = 0, end = 0;
      for (const { points, counts } of parts) {
        bytes.set(new Uint8Array(points.buffer), at);
        at += points.byteLength;
        for (const count of counts) view.setBigInt64(8 * ++line, BigInt((end += count)), true);
      }
      const found = await crypto.subtle.digest("SHA-256", bytes);
      return [...new Uint8Array(found)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    }

    // As a texture holds them; see pointsOf.
    function texels({ parts, n_points }) {
      const { row, low, step } = setup.texture;
      const made = new Uint16Array(4 * row * Math.max(Math.ceil(n_points / row), 1));
      let to = 0;
      for (const part of parts) {
        if (!part) continue; // not yet
        let from = 0;
        for (const count of part.counts)
          for (let i = 0; i < count; i++, from += 3, to += 4) {
            for (let axis = 0; axis < 3; axis++)
              made[to + axis] = Math.min(Math.max((part.points[from + axis] - low[axis]) / step, 0), 65_535);
            made[to + 3] = (i > 0) | ((i < count - 1) << 1);
          }
      }
      return made;
    }

    async function answer(isDone) {
      const mine = run, begun = performance.now();
      const said = { id: run.id, n_points: run.n_points, n_lines: run.n_lines, isDone: false };
      if (run.isMoved) {
        said.texels = texels(run);
        port.postMessage(said, [said.texels.buffer]);
        delete said.texels;
      }
      mine.told = performance.now();
      mine.wait = Math.max(BETWEEN_MS, 4 * (mine.told - begun));
      if (isDone) port.postMessage({ ...said, isDone, digest: await digest(mine) });
    }

    // A few milliseconds of work; whether there is more.
    function work() {
      const isFirst = newest !== null, begun = performance.now();
      if (isFirst) begin(newest);
      newest = null;
      const until = begun + (isFirst ? FIRST_MS : SLICE_MS);
      while (run.next < order.length && performance.now() < until) step();
      const isDone = run.next >= order.length;
      if (isFirst || isDone || performance.now() - run.told > run.wait) answer(isDone).catch(fail);
      if (isDone) run = null;
      return !isDone;
    }

    const fail = (error) => port.postMessage({ error: error.message });
    // Between two pieces of work, messages come in and, in a page, frames are drawn.
    const { port1: again, port2: pause } = new MessageChannel();
    pause.onmessage = () => {
      try {
        if (work()) again.postMessage(0);
      } catch (error) {
        run = newest = null;
        fail(error);
      }
    };
    port.onmessage = ({ data }) => {
      if (data.content) open(data).then(() => port.postMessage({ isOpen: true }), fail);
      else {
        if (!run && !newest) again.postMessage(0);
        newest = data;
      }
    };
  }

  function worker() {
    return new Worker(URL.createObjectURL(new Blob([`(${serve})(self)`], { type: "text/javascript" })));
  }

  // The page's own thread, where a browser makes no worker.
  function channel() {
    const { port1, port2 } = new MessageChannel();
    serve(port1);
    return port2;
  }

  function opened(port, setup) {
    return new Promise((resolve, reject) => {
      port.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(port));
      port.onerror = (event) => reject(new Error(event.message || "no worker"));
      port.postMessage(setup);
    });
  }

  // The bundle whose seeds are dragged: what of it is moved, and who tracks it.
  class Live {
    static async open(page) {
      const content = page.live, low = page.box_mm[0].map((mm, axis) =>
        Math.min(mm, page.bundles[content.bundle].low[axis]) - page.radius);
      const texture = { row: POINTS_A_ROW, low, step: Math.max(page.step_mm, (4 * page.radius) / 65_000) };
      const setup = { content, texture };
      for (const part of ["image", "positions", "kernel", "tissues"]) setup[part] = await inflated(`live-${part}`);
      let port;
      try {
        port = await opened(worker(), setup);
      } catch {
        port = await opened(channel(), setup);
      }
      return new Live(content, port, texture);
    }

    constructor(content, port, texture) {
      Object.assign(this, { content, port, texture, id: 0 });
      this.putBack();
    }

    putBack() {
      this.shift = [0, 0, 0];
      this.chosen = { ...this.content.own };
    }

    get isMoved() {
      const { chosen, content } = this;
      return this.shift.some((mm) => mm !== 0) || Object.keys(chosen).some((name) => chosen[name] !== content.own[name]);
    }

    ask() {
      const { shift, chosen, isMoved } = this;
      this.port.postMessage({ id: ++this.id, shift, chosen, isMoved });
    }
  }

  function openLive(page, viewer, live) {
    const { content } = live, ring = element("seed");
    const bundle = page.bundles[content.bundle], eyeOf = element("bundles").querySelectorAll(".eye")[content.bundle];
    const { low, step } = live.texture, told = element("live-told");
    const colour = bundle.colour === "points" ? "direction" : bundle.colour;
    let wasMoved = false;

    // Show what is tracked here in place of the bundle where it is another.
    function show({ texels, n_points }) {
      const isMoved = Boolean(texels);
      if (isMoved) {
        const shown = { ...bundle, low, colour, visible: true, points: { rows: n_points } };
        viewer.drawing.replace(shown, texels, step);
      } else viewer.drawing.replace(null);
      const isSeen = eyeOf.getAttribute("aria-pressed") === "true";
      if (isMoved !== wasMoved && isSeen === isMoved) eyeOf.click();
      wasMoved = isMoved;
      viewer.update();
    }

    function finish({ n_lines, digest }) {
      const n = `${n_lines.toLocaleString("en")} streamlines tracked here`;
      told.textContent = digest === null ? `${n}.`
        : live.isMoved ? `${n}, digest ${digest}.`
          : digest === content.digest ? `${n}: the same as the recipe's, digest ${digest}.`
            : `${n} are not the recipe's: digest ${digest}, not ${content.digest}.`;
      if (digest !== null) told.dataset.digest = digest;
    }

    // Of what was asked for before, the first streamlines are shown, too: a hand goes on moving.
    live.port.onmessage = ({ data }) => {
      try {
        if (data.error) throw new Error(data.error);
        if (data.texels && live.isMoved) show(data);
        if (data.isDone && data.id === live.id) finish(data);
      } catch (error) {
        told.textContent = `Tracking here has failed (${error.message}).`;
      }
    };

    function again() {
      delete told.dataset.digest;
      if (!live.isMoved) show({});
      told.textContent = "Tracking...";
      live.ask();
    }

    const place = () => {
      const [x, y] = viewer.project(content.center_mm.map((mm, axis) => mm + live.shift[axis]));
      ring.style.left = `${x}px`;
      ring.style.top = `${y}px`;
    };
    viewer.after = place;
    let before = null;
    ring.addEventListener("pointerdown", (event) => {
      ring.setPointerCapture(event.pointerId);
      before = [event.clientX, event.clientY];
    });
    function move(dx, dy) {
      const way = viewer.mm(dx, dy);
      live.shift = live.shift.map((mm, axis) => mm + way[axis]);
      ring.dataset.shift = JSON.stringify(live.shift);
      viewer.update(true);
      again();
    }
    ring.addEventListener("pointermove", (event) => {
      if (!before) return;
      const [x, y] = before;
      before = [event.clientX, event.clientY];
      move(event.clientX - x, event.clientY - y);
    });
    ring.addEventListener("keydown", (event) => {
      const way = ARROWS[event.key];
      if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
      const pixels = event.shiftKey ? 20 : 4;
      move(pixels * way[0], pixels * way[1]);
      event.preventDefault();
      event.stopPropagation();
    });
    for (const name of ["pointerup", "pointercancel"]) ring.addEventListener(name, () => { before = null; });
    // How much of the slider is one of what is chosen, and how that is told.
    const sliders = {
      angle: { max: content.angles_deg.length - 1, step: 1, text: (n) => `${content.angles_deg[n].toPrecision(3) * 1}°` },
      floor: { max: 3 * content.own.floor, step: content.own.floor / 20, text: (value) => value.toPrecision(2) },
      threshold: { max: content.thresholds.length - 1, step: 1, text: (n) => String(content.thresholds[n]) },
    };
    const tell = () => {
      for (const [name, { text }] of Object.entries(sliders)) {
        element(name).value = live.chosen[name];
        element(`${name}-told`).textContent = text(live.chosen[name]);
      }
    };
    for (const [name, { max, step: by }] of Object.entries(sliders)) {
      Object.assign(element(name), { max, step: by || 1, disabled: max === 0 });
      element(name).addEventListener("input", () => {
        const value = +element(name).value, own = content.own[name];
        live.chosen[name] = Math.abs(value - own) < by / 4 ? own : value;
        tell();
        again();
      });
    }
    viewer.onReset = () => {
      if (!live.isMoved) return;
      live.putBack();
      tell();
      again();
    };
    tell();
    const [n_here, n_all] = content.n_voxels;
    element("left-out").textContent = `${n_here.toLocaleString("en")} of its ${n_all.toLocaleString("en")} voxels`;
    ring.hidden = element("live-part").hidden = false;
    place();
    again();
  }

  // -- the view ---------------------------------------------------------------------------------

  function turnOf(forward, up) {
    const back = new THREE.Vector3(...forward).negate().normalize();
    const right = new THREE.Vector3(...up).cross(back).normalize();
    const basis = new THREE.Matrix4().makeBasis(right, back.clone().cross(right), back);
    return new THREE.Quaternion().setFromRotationMatrix(basis);
  }

  class Viewer {
    constructor(page, canvas, drawing) {
      Object.assign(this, { page, canvas, drawing, frame: 0, asked: 0, lastMove: 0, isOpen: false, part: 1, note: "" });
      this.view = { centre: new THREE.Vector3(), turn: new THREE.Quaternion(), height: 1, ground: [0, 0, 0] };
      this.pointers = new Map();
      this.reset();
    }

    reset() {
      const camera = this.page.camera;
      this.look(camera?.forward ?? FORWARD, camera?.up ?? [0, 0, 1]);
      if (!camera) return;
      this.view.centre.set(...camera.center_mm);
      this.view.height = Math.max(camera.height_mm, camera.width_mm / this.aspect);
    }

    get aspect() { return this.canvas.clientWidth / Math.max(this.canvas.clientHeight, 1) || 1; }

    // Look along a direction at all there is.
    look(forward, up) {
      const { view, page } = this;
      view.turn.copy(turnOf(forward, up));
      view.centre.copy(page.middle);
      const [right, above] = [[1, 0, 0], [0, 1, 0]].map((axis) => new THREE.Vector3(...axis).applyQuaternion(view.turn));
      const reach = (way) => Math.abs(way.x) * page.half.x + Math.abs(way.y) * page.half.y + Math.abs(way.z) * page.half.z;
      view.height = 2.1 * Math.max(reach(above), reach(right) / this.aspect, page.step_mm);
      this.update();
    }

    // Draw soon: `isMoving` as much as stays smooth, and everything once it rests.
    update(isMoving = false) {
      if (isMoving) this.lastMove = performance.now();
      if (this.frame) return;
      this.asked = performance.now();
      this.frame = requestAnimationFrame(() => this.draw());
    }

    draw() {
      this.frame = 0;
      const now = performance.now(), isMoving = !this.isOpen || now - this.lastMove < REST_MS;
      if (isMoving && this.isOpen) this.drawing.learn(now - this.asked);
      const part = this.drawing.draw(this.view, isMoving);
      if (this.isOpen && !isMoving && part !== this.part) {
        this.part = part;
        if (part < 1) say(`This browser draws slowly, so that ${Math.ceil(100 * part)} % of the streamlines are seen.`);
        else say(this.note);
      }
      this.writeLetters();
      this.after?.();
      if (isMoving && this.isOpen) {
        clearTimeout(this.resting);
        this.resting = setTimeout(() => this.update(), REST_MS);
      }
    }

    // Where a position, mm, is on the canvas; and how far in mm so many pixels are.
    project(mm) {
      const { centre, turn, height } = this.view, { clientWidth, clientHeight } = this.canvas;
      const seen = new THREE.Vector3(...mm).sub(centre).applyQuaternion(turn.clone().invert());
      const scale = clientHeight / height;
      return [clientWidth / 2 + scale * seen.x, clientHeight / 2 - scale * seen.y];
    }

    mm(dx, dy) {
      const scale = this.view.height / this.canvas.clientHeight;
      return new THREE.Vector3(dx * scale, -dy * scale, 0).applyQuaternion(this.view.turn).toArray();
    }

    letters() {
      const found = {};
      for (const [axis, low, high] of [[[1, 0, 0], "left", "right"], [[0, 1, 0], "bottom", "top"]]) {
        const way = new THREE.Vector3(...axis).applyQuaternion(this.view.turn).toArray();
        const largest = [0, 1, 2].reduce((best, i) => (Math.abs(way[i]) > Math.abs(way[best]) ? i : best));
        const ends = Math.abs(way[largest]) > MIN_COSINE ? this.page.letters[largest] : ["", ""];
        found[high] = ends[+(way[largest] > 0)];
        found[low] = ends[+(way[largest] <= 0)];
      }
      return found;
    }

    writeLetters() {
      for (const [edge, letter] of Object.entries(this.letters())) element(edge).textContent = letter;
    }

    turn(dx, dy, dz = 0) {
      for (const [axis, angle] of [[[0, 1, 0], -dx], [[1, 0, 0], -dy], [[0, 0, 1], dz]])
        this.view.turn.multiply(new THREE.Quaternion().setFromAxisAngle(new THREE.Vector3(...axis), angle));
      this.view.turn.normalize();
      this.update(true);
    }

    // Move what is seen by pixels.
    pan(dx, dy) {
      const mm = this.view.height / this.canvas.clientHeight;
      this.view.centre.add(new THREE.Vector3(-dx * mm, dy * mm, 0).applyQuaternion(this.view.turn));
      this.update(true);
    }

    // Zoom, and turn in the plane, while what is under a place of the canvas stays there.
    zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2, angle = 0) {
      const [dx, dy] = [x - this.canvas.clientWidth / 2, y - this.canvas.clientHeight / 2];
      this.pan(-dx, -dy);
      const before = this.view.height;
      this.view.height = Math.min(Math.max(before / factor, this.page.radius / 1e3), this.page.radius * 100);
      this.turn(0, 0, angle);
      this.pan(dx, dy);
    }

    listen() {
      const { canvas, pointers } = this;
      const at = (event) => [event.offsetX, event.offsetY];
      canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        pointers.set(event.pointerId, at(event));
      });
      for (const name of ["pointerup", "pointercancel"])
        canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
      canvas.addEventListener("pointermove", (event) => {
        const before = pointers.get(event.pointerId);
        if (!before) return;
        const now = at(event), [dx, dy] = [now[0] - before[0], now[1] - before[1]];
        pointers.set(event.pointerId, now);
        if (pointers.size === 1) {
          if (event.shiftKey || event.buttons & 6) this.pan(dx, dy);
          else this.turn(dx / 200, dy / 200);
          return;
        }
        const [[, other]] = [...pointers].filter(([id]) => id !== event.pointerId);
        const [was, is] = [before, now].map(([x, y]) => [x - other[0], y - other[1]]);
        this.pan(dx / 2, dy / 2);
        const angle = Math.atan2(is[1], is[0]) - Math.atan2(was[1], was[0]);
        this.zoom(Math.hypot(...is) / Math.max(Math.hypot(...was), 1), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2, angle);
      });
      canvas.addEventListener("contextmenu", (event) => event.preventDefault());
      canvas.addEventListener("wheel", (event) => {
        event.preventDefault();
        const lines = event.deltaMode === 1 ? 16 : 1;
        this.zoom(Math.exp(-event.deltaY * lines * 0.0015), ...at(event));
      }, { passive: false });
    }
  }

  // -- the panel --------------------------------------------------------------------------------

  function eye(name, isVisible, show) {
    const button = make("button", "", { className: "eye", title: `Show or hide ${name}` });
    button.setAttribute("aria-label", `Show ${name}`);
    const set = (value) => {
      button.setAttribute("aria-pressed", String(value));
      show(value);
    };
    button.addEventListener("click", () => set(button.getAttribute("aria-pressed") !== "true"));
    button.setAttribute("aria-pressed", String(isVisible));
    return button;
  }

  function fillBundles(page, viewer) {
    for (const [number, bundle] of page.bundles.entries()) {
      const row = make("li");
      const swatch = make("span", "", { className: "swatch" });
      if (bundle.colour.startsWith("#")) swatch.style.background = bundle.colour;
      else swatch.classList.add(bundle.colour === "direction" ? "direction" : "several");
      const n = bundle.counts.rows.toLocaleString("en");
      const of = bundle.n_all > bundle.counts.rows ? ` of ${bundle.n_all.toLocaleString("en")}` : "";
      row.append(
        eye(bundle.name, bundle.visible, (isVisible) => {
          viewer.drawing.show(number, isVisible);
          viewer.update();
        }),
        swatch,
        make("span", bundle.name, { className: "name" }),
        make("span", n + of, { className: "count", title: `${n}${of} streamlines` }),
      );
      element("bundles").append(row);
    }
    const meanings = page.bundles.filter((bundle) => bundle.meaning).map((bundle) => bundle.meaning);
    element("meaning").textContent = [...new Set(meanings)].join(" ");
  }

  function fillSlices(page, viewer) {
    const volume = page.volume;
    for (const [axis, name] of page.slices.entries()) {
      const row = make("li");
      const slider = make("input", "", {
        type: "range", min: 0, max: volume.shape[axis] - 1, step: 1, value: volume.at[axis],
      });
      slider.setAttribute("aria-label", `${name} slice`);
      const position = make("output");
      const told = () => {
        const voxel = volume.shape.map((n) => (n - 1) / 2);
        voxel[axis] = +slider.value;
        const along = volume.affine[axis];
        const mm = along[0] * voxel[0] + along[1] * voxel[1] + along[2] * voxel[2] + along[3];
        const [low, high] = page.letters[axis];
        const shown = Math.abs(mm * page.units_a_mm).toFixed(page.units_a_mm === 1 ? 0 : 1);
        position.textContent = low ? `${shown} ${mm < 0 ? low : high}` : `${mm < 0 ? "-" : ""}${shown}`;
      };
      slider.addEventListener("input", () => {
        viewer.drawing.setSlice(axis, +slider.value);
        told();
        viewer.update();
      });
      told();
      row.append(
        eye(`${name} slice`, volume.visible[axis], (isVisible) => {
          viewer.drawing.showSlice(axis, isVisible);
          viewer.update();
        }),
        make("span", name, { className: "name" }), slider, position,
      );
      element("slices").append(row);
    }
    element("volume").textContent = volume.name;
  }

  function fillProvenance(page) {
    const list = element("provenance");
    const add = (term, text) => list.append(make("dt", term), make("dd", text));
    for (const bundle of page.bundles) add(bundle.name, bundle.digest ? `digest ${bundle.digest}` : "digest unknown");
    for (const [name, version] of Object.entries(page.versions)) add(name, version);
    add("To make it again", page.again);
    element("recipe").textContent = page.recipe;
  }

  function download(blob, name) {
    const link = make("a", "", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  // What is seen, with its letters.
  function screenshot(viewer) {
    viewer.drawing.draw(viewer.view, false);
    const { canvas } = viewer;
    const sheet = make("canvas", "", { width: canvas.width, height: canvas.height });
    const paper = sheet.getContext("2d");
    paper.drawImage(canvas, 0, 0);
    const ratio = canvas.width / canvas.clientWidth, margin = 16 * ratio;
    paper.font = `bold ${16 * ratio}px sans-serif`;
    Object.assign(paper, { textAlign: "center", textBaseline: "middle", fillStyle: getComputedStyle(element("top")).color });
    const { left, right, top, bottom } = viewer.letters();
    paper.fillText(left, margin, sheet.height / 2);
    paper.fillText(right, sheet.width - margin, sheet.height / 2);
    paper.fillText(top, sheet.width / 2, margin);
    paper.fillText(bottom, sheet.width / 2, sheet.height - margin);
    sheet.toBlob((blob) => download(blob, "tractography.png"), "image/png");
  }

  function theme(name, viewer) {
    document.documentElement.dataset.theme = name;
    viewer.view.ground = THEMES[name];
    viewer.update();
  }

  function listen(page, viewer) {
    const root = document.documentElement;
    const full = () => (document.fullscreenElement ? document.exitFullscreen() : document.fullscreenEnabled && root.requestFullscreen());
    const toggleTheme = () => theme(root.dataset.theme === "dark" ? "light" : "dark", viewer);
    const reset = () => { viewer.reset(); viewer.onReset?.(); viewer.update(); };
    const actions = {
      Reset: [reset, "Back to the view that the page opens with (R)"],
      ...Object.fromEntries(Object.entries(SIDES).map(([name, way]) => [name, [() => viewer.look(...way), `From ${name === "Above" ? "above" : `the ${name.toLowerCase()}`}`]])),
      Screenshot: [() => screenshot(viewer), "Save what is seen as PNG (S)"],
      "Full screen": [full, "Full screen, and back (F)"],
      "Light or dark": [toggleTheme, "A light or a dark background (D)"],
    };
    if (!page.is_anatomical) ["Front", "Left", "Above"].forEach((name) => delete actions[name]);
    if (!document.fullscreenEnabled) delete actions["Full screen"];
    for (const [name, [act, title]] of Object.entries(actions)) {
      const button = make("button", name, { title });
      button.addEventListener("click", act);
      element("actions").append(button);
    }
    const angle = Math.PI / 36;
    document.addEventListener("keydown", (event) => {
      const way = ARROWS[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey || (way && event.target.tagName === "INPUT")) return;
      const key = event.key.toLowerCase();
      const eyes = element("bundles").querySelectorAll(".eye");
      if (way && event.shiftKey) viewer.pan(20 * way[0], 20 * way[1]);
      else if (way) viewer.turn(angle * way[0], angle * way[1]);
      else if (key === "+" || key === "=") viewer.zoom(1.1);
      else if (key === "-") viewer.zoom(1 / 1.1);
      else if (key === "r") reset();
      else if (key === "s") screenshot(viewer);
      else if (key === "f") full();
      else if (key === "d") toggleTheme();
      else if (/^[1-9]$/.test(key) && eyes[key - 1]) eyes[key - 1].click();
      else return;
      event.preventDefault();
    });
    element("save-recipe").addEventListener("click", () => {
      download(new Blob([page.recipe], { type: "application/json" }), page.recipe_name);
    });
    new ResizeObserver(() => viewer.update()).observe(viewer.canvas);
  }

  // -- opening ----------------------------------------------------------------------------------

  function webgl() {
    try {
      return document.createElement("canvas").getContext("webgl2") !== null;
    } catch {
      return false;
    }
  }

  async function open() {
    if (!element("end")) return fail("This file is cut short: get the whole of it again.");
    if (typeof DecompressionStream === "undefined")
      return fail("This browser is too old for this page: open it in one of the last three years.");
    const page = JSON.parse(element("page").textContent);
    const [low, high] = page.box_mm.map((corner) => new THREE.Vector3(...corner));
    page.middle = low.clone().add(high).multiplyScalar(0.5);
    page.half = high.clone().sub(low).multiplyScalar(0.5);
    page.radius = Math.max(page.half.length(), page.step_mm);
    const canvas = element("canvas");
    const isStill = !webgl();
    const drawing = new (isStill ? Still : Drawing)(page, canvas);
    const viewer = new Viewer(page, canvas, drawing);
    const isDark = page.theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : page.theme === "dark";
    theme(isDark ? "dark" : "light", viewer);
    fillBundles(page, viewer);
    fillProvenance(page);
    for (const bundle of page.bundles) {
      say(`Opening ${bundle.name}...`);
      try {
        drawing.addBundle(bundle, await pointsOf(bundle), bundle.colours ? await coloursOf(bundle) : null);
      } catch (error) {
        return fail(`${bundle.name} cannot be shown (${error.message}): get the file again.`);
      }
      viewer.update(); // what is there already, as much as is quick
    }
    if (page.volume) {
      try {
        drawing.addVolume(page.volume, await voxelsOf(page.volume));
      } catch (error) {
        return fail(`${page.volume.name} cannot be shown (${error.message}): get the file again.`);
      }
      fillSlices(page, viewer);
    }
    element("slice-part").hidden = !page.volume;
    listen(page, viewer);
    if (!isStill) viewer.listen();
    if (isStill) viewer.note = "This browser draws without WebGL, so that this is a still picture.";
    say(viewer.note);
    drawing.measure(viewer.view);
    viewer.lastMove = 0; // it rests
    viewer.isOpen = true;
    viewer.draw();
    if (page.live && !isStill) {
      try {
        openLive(page, viewer, await Live.open(page));
      } catch (error) {
        say(`Tracking in this page is not possible here (${error.message}).`);
      }
    }
    document.documentElement.dataset.state = isStill ? "still" : "ready";
  }

  document.addEventListener("DOMContentLoaded", () => {
    open().catch((error) => fail(`This page cannot be shown: ${error.message}.`));
  });
}
