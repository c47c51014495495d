"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const places = [...document.querySelectorAll(".plot")];
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const fine = !matchMedia("(pointer: coarse)").matches;
  // Plotly reads names as if they were HTML: what a name holds is text, and stays so.
  const literal = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = name => style.getPropertyValue("--" + name).trim();
    return { of, series: c => (typeof c === "number" ? of("c" + (c % 8)) : of(c)) };
  }

  function faded(hex, alpha) {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
  }

  // Colours whose keys were clicked away.
  const keysOf = place => [...place.parentElement.querySelectorAll(".keys button")];
  const hiddenIn = place => new Set(keysOf(place).filter(k => k.ariaPressed === "true").map(k => k.dataset.colour));

  function traces(chart, paint, place) {
    const hidden = hiddenIn(place);
    return chart.series.filter(s => !hidden.has(String(s.colour))).flatMap(s => {
      const colour = paint.series(s.colour);
      const base = { type: "scatter", x: s.x, y: s.y, name: literal(s.name || "") };
      const line = { color: colour, width: 2 };
      switch (s.kind) {
        case "band":
          return [
            { ...base, y: s.low, mode: "lines", line: { width: 0 }, hoverinfo: "skip" },
            { ...base, y: s.high, mode: "lines", line: { width: 0 }, hoverinfo: "skip", fill: "tonexty", fillcolor: faded(colour, 0.16) },
          ];
        case "thin":
          return [{ ...base, mode: "lines", line: { color: faded(colour, 0.38), width: 1 } }];
        case "points":
          return [{
            ...base, mode: "markers",
            marker: { color: colour, size: 9, symbol: "diamond", line: { color: paint.of("card"), width: 1 } },
            error_y: {
              type: "data", symmetric: false, color: colour, thickness: 1.5, width: 4,
              array: s.high.map((v, i) => v - s.y[i]), arrayminus: s.low.map((v, i) => s.y[i] - v),
            },
          }];
        case "area":
          return [{ ...base, mode: "lines", stackgroup: "one", line: { width: 0, color: colour }, fillcolor: faded(colour, s.colour === "rest" ? 1 : 0.82) }];
        case "bars": {
          const own = (s.colours || []).filter(c => c !== "hatched").map(paint.series);
          const hatched = (s.colours || []).includes("hatched");
          return [{
            ...base, type: "bar", orientation: chart.across ? "h" : "v",
            marker: {
              color: own.length ? own : colour, line: { width: 0 },
              ...(hatched ? { pattern: { shape: "/", size: 5, solidity: 0.35, fillmode: "overlay", fgcolor: paint.of("card") } } : {}),
            },
          }];
        }
        default:
          return [{ ...base, mode: s.y.length === 1 ? "markers" : "lines", line, marker: { color: colour, size: 7 } }];
      }
    });
  }

  function axis(paint, title, more) {
    const plain = { color: paint.of("soft"), size: 11 };
    return {
      title: title ? { text: literal(title), font: plain, standoff: 6 } : undefined,
      tickfont: plain, gridcolor: paint.of("grid"), linecolor: paint.of("line"), zeroline: false, automargin: true,
      tickcolor: paint.of("line"), ...more,
    };
  }

  function layout(chart, paint, place) {
    const format = chart.percent ? ".0%" : undefined;
    const values = { tickformat: format, hoverformat: chart.percent ? ".1%" : ",.4~g", rangemode: chart.zero ? "tozero" : "normal", nticks: 6 };
    if (chart.percent) values.range = [0, 1];
    const keys = { showgrid: false, hoverformat: ",.6~g", nticks: place.clientWidth < 420 ? 5 : 8 };
    const across = chart.across;
    return {
      width: place.clientWidth, height: place.clientHeight,
      margin: { l: 8, r: 20, t: 8, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: paint.of("ink") },
      barmode: chart.stacked ? "stack" : "group", bargap: across ? 0.35 : 0.2,
      xaxis: axis(paint, chart.x, across ? { ...values, showgrid: true } : keys),
      yaxis: axis(paint, chart.y, across ? { autorange: "reversed", showgrid: false, type: "category" } : { ...values, type: chart.log ? "log" : "linear" }),
      hovermode: across ? "closest" : "x unified", dragmode: fine ? "zoom" : false,
      hoverlabel: { bgcolor: paint.of("card"), bordercolor: paint.of("line"), font: { color: paint.of("ink"), size: 12 }, namelength: 120 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: paint.of("faint"), activecolor: paint.of("soft") },
      showlegend: false,
      shapes: chart.line === undefined ? [] : [{
        type: "line", xref: "paper", x0: 0, x1: 1, y0: chart.line, y1: chart.line, line: { color: paint.of("soft"), width: 1, dash: "dot" },
      }],
    };
  }

  const settings = {
    displaylogo: false, responsive: false, displayModeBar: fine && matchMedia("(hover: hover)").matches ? "hover" : false,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };

  function draw(place) {
    const chart = charts[Number(place.dataset.chart)];
    const rows = new Set(chart.series.flatMap(s => (chart.across ? s.y : []))).size;
    if (chart.across) place.style.height = `${58 + 34 * rows}px`;
    const paint = colours();
    return Plotly.react(place, traces(chart, paint, place), layout(chart, paint, place), settings);
  }

  const drawAll = () => places.forEach(draw);

  // One chart per frame, so that the page can be read and scrolled meanwhile.
  (async () => {
    for (const place of places) {
      await draw(place);
      await new Promise(done => setTimeout(done));
    }
    document.documentElement.dataset.drawn = places.length;
  })();

  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's bars come and go
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 120);
  });
  scheme.addEventListener("change", drawAll);
  const root = document.documentElement.classList;
  addEventListener("beforeprint", () => { root.add("print"); drawAll(); });
  addEventListener("afterprint", () => { root.remove("print"); drawAll(); });

  for (const place of places) {
    for (const key of keysOf(place)) {
      key.addEventListener("click", () => {
        const pressed = key.ariaPressed !== "true";
        for (const same of keysOf(place)) if (same.dataset.colour === key.dataset.colour) same.ariaPressed = pressed;
        draw(place);
      });
    }
  }

  for (const input of document.querySelectorAll("input[type=search]")) {
    const rows = [...input.parentElement.querySelectorAll("tbody tr")];
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(w => text.includes(w));
      }
    });
  }
})();
