// All searches, newest first.
import { api } from "./api.js";
import { h } from "./dom.js";
import { count, formatFigure, formatNumber, formatTime, toNumber } from "./format.js";
import { searchBadge } from "./search_words.js";
import { table } from "./table.js";

const ROWS = 50;

const number = (value) => formatNumber(toNumber(value));

export function searchesView(context) {
  // Tokens of the pages up to the one shown.
  let searches, nextToken, tokens = [""];
  const turn = (pages) => {
    tokens = pages;
    searches = undefined;
    context.draw();
    context.poll();
  };
  return {
    title: () => "Searches",
    poll: async () => {
      const asked = tokens;
      const reply = await api.searches({ pageSize: ROWS, pageToken: asked.at(-1) });
      if (asked !== tokens) return;
      searches = reply.searches ?? [];
      nextToken = reply.nextPageToken;
    },
    draw: () => {
      if (!searches) return [h("p", null, "Reading …")];
      if (searches.length === 0 && tokens.length === 1) {
        return [h("p", { key: "none" }, "There are no searches.")];
      }
      return [
        h("p", { key: "count", class: "soft", role: "status" }, count(searches.length, "search", "searches"), nextToken || tokens.length > 1 ? " on this page" : ""),
        table("Table of searches", [
          { name: "search", class: "name", cell: ({ searchId, spec }) => [
            h("a", { href: `/searches/${encodeURIComponent(searchId)}` }, spec?.name || searchId), " ", h("span", { class: "soft id" }, searchId)] },
          { name: "state", cell: searchBadge },
          { name: "begun", numeric: true, cell: ({ begun, spec }) => (toNumber(spec?.trials) ? `${number(begun)} / ${number(spec.trials)}` : number(begun)) },
          { name: "running", numeric: true, cell: ({ running }) => number(running) },
          { name: "done", numeric: true, class: "wide", cell: ({ completed }) => number(completed) },
          { name: "halted", numeric: true, class: "wide", cell: ({ halted }) => number(halted) },
          { name: "failed", numeric: true, class: "wide", cell: ({ failed }) => number(failed) },
          { name: "best so far", numeric: true, cell: ({ best }) => formatFigure(best?.record?.rungs?.filter(({ objective }) => objective !== undefined).at(-1)?.objective) },
          { name: "steps", numeric: true, class: "wide", cell: ({ steps }) => number(steps) },
          { name: "started", class: "wide whole", cell: ({ startedUnixMs }) => formatTime(startedUnixMs) },
        ], searches, ({ searchId }) => searchId),
        (nextToken || tokens.length > 1) && h("nav", { key: "pages", class: "pages", "aria-label": "Pages of searches" },
          h("button", { type: "button", disabled: tokens.length === 1, onclick: () => turn(tokens.slice(0, -1)) }, "Newer"),
          h("span", null, `page ${tokens.length}`),
          h("button", { type: "button", disabled: !nextToken, onclick: () => turn([...tokens, nextToken]) }, "Older")),
      ];
    },
  };
}
