// Draws the figures once the page has its layout, and again when a box or the colours change.
(() => {
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const config = { displayModeBar: false };

  // The colours of the page, as changes of a layout.
  function colours(layout) {
    const ink = css('--ink'), grid = css('--grid'), axis = css('--axis');
    const out = {
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', 'font.color': ink,
      'hoverlabel.bgcolor': css('--panel'), 'hoverlabel.font.color': ink,
    };
    const axes = layout.scene ? ['scene.xaxis', 'scene.yaxis', 'scene.zaxis'] : ['xaxis', 'yaxis'];
    for (const name of axes) {
      out[`${name}.gridcolor`] = grid;
      out[`${name}.linecolor`] = axis;
      out[`${name}.zerolinecolor`] = grid;
      if (layout.scene) out[`${name}.backgroundcolor`] = 'rgba(0,0,0,0)';
    }
    (layout.shapes || []).forEach((_, i) => { out[`shapes[${i}].line.color`] = axis; });
    return out;
  }

  // A figure in space is at most as high as it is wide. Its size on the screen follows its height:
  // in a narrow box the eye steps back.
  const ROOMY = 4 / 3;
  const distance = ({ width, height }) => Math.max(1, ROOMY * height / width);
  const sized = (layout, width) => ({ width, height: Math.min(layout.height, width) });
  function farther(camera, factor) {
    const { x, y, z } = camera.eye;
    return { ...camera, eye: { x: x * factor, y: y * factor, z: z * factor } };
  }

  function draw(box) {
    const { data, layout } = FIGURES[box.id];
    const width = box.clientWidth, narrow = width < 420;
    const font = { family: getComputedStyle(document.body).fontFamily, size: narrow ? 12 : 13 };
    const settled = { ...layout, autosize: false, width, font };
    if (layout.scene) {
      const size = sized(layout, width);
      const camera = farther(layout.scene.camera, distance(size));
      Object.assign(settled, size, { scene: { ...layout.scene, camera } });
      box.style.height = `${size.height}px`;
    }
    return Plotly.newPlot(box, data, settled, config)
      .then(() => Plotly.relayout(box, colours(layout)))
      .then(() => watch.observe(box));
  }

  function resized(box, width) {
    const change = { width };
    if (box.layout.scene) {
      const size = sized(FIGURES[box.id].layout, width);
      const factor = distance(size) / distance(box.layout);
      Object.assign(change, size, { 'scene.camera': farther(box.layout.scene.camera, factor) });
      box.style.height = `${size.height}px`;
    }
    return Plotly.relayout(box, change);
  }

  const watch = new ResizeObserver(entries => {
    for (const { target } of entries) {
      const width = target.clientWidth;
      if (width > 0 && target.layout && target.layout.width !== width) {
        resized(target, width);
      }
    }
  });

  const boxes = [...document.querySelectorAll('.plot')];
  // One after another, from the top, so that the page can be read meanwhile.
  (async () => {
    for (const box of boxes) {
      await draw(box);
      await new Promise(next => setTimeout(next));
    }
  })();
  dark.addEventListener('change', () => {
    boxes.filter(box => box.layout).forEach(box => Plotly.relayout(box, colours(box.layout)));
  });

  // A legend serves all figures of its group.
  for (const key of document.querySelectorAll('.legend button')) {
    key.addEventListener('click', () => {
      const shown = key.getAttribute('aria-pressed') !== 'true';
      key.setAttribute('aria-pressed', shown);
      for (const box of key.closest('.group').querySelectorAll('.plot')) {
        const mine = (box.data || []).map((t, i) => (t.meta === key.dataset.name ? i : -1));
        const found = mine.filter(i => i >= 0);
        if (found.length) Plotly.restyle(box, { visible: shown }, found);
      }
    });
  }
})();
