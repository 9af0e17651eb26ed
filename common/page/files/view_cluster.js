// The daemons, with what they have and what is taken of it; drains; and where the running jobs' partitions are.
import { allJobs, api } from "./api.js";
import { h } from "./dom.js";
import { count, formatBytes, toNumber } from "./format.js";
import { clusterSentence, hasEnded } from "./problems.js";
import { table } from "./table.js";

const MOST_JOBS = 100;
// Number of polls after which the jobs' partitions are read again.
const EVERY_JOBS = 5;

// Returns a job's numbers of partitions by server, such as "s0: 4, s1: 4".
export function partitionText(job) {
  const numbers = new Map();
  for (const placement of job.partitions ?? []) {
    for (const { serverId } of placement.replicas ?? []) numbers.set(serverId, (numbers.get(serverId) ?? 0) + 1);
  }
  return [...numbers].map(([server, number]) => `${server}: ${number}`).join(", ");
}

function share(used, all, format) {
  return h("span", { class: "share" }, `${format(used)} of ${format(all)} `,
    h("meter", { min: "0", max: String(all || 1), value: String(used), "aria-hidden": "true" }));
}

function daemonTable(kind, daemons, drains) {
  const isServer = kind === "SERVER";
  return table(isServer ? "Servers" : "Workers", [
    { name: "id", cell: (daemon) => daemon.id },
    { name: "state", cell: (daemon) => {
      const drain = drains.find((each) => each.serverId === daemon.id);
      if (!daemon.live && drain && !toNumber(drain.partitions)) return h("span", { class: "state CANCELLED" }, "stopped");
      if (!daemon.live) return h("span", { class: "state FAILED" }, "lost");
      if (!drain) return h("span", { class: "state RUNNING" }, "live");
      const left = toNumber(drain.partitions);
      const details = [left > 0 && `${count(left, "partition")} left`, drain.waitingFor?.length && `waits: ${drain.waitingFor.join("; ")}`];
      return [h("span", { class: "state PENDING" }, left || drain.waitingFor?.length ? "draining" : "drained"), ` ${details.filter(Boolean).join("; ")}`];
    } },
    ...(isServer ? [{ name: "partitions", numeric: true, cell: (daemon) => String(daemon.partitions ?? 0) }] : [
      { name: "slots in use", cell: (daemon) => share(toNumber(daemon.slotsUsed), toNumber(daemon.slots), String) },
      { name: "processors", numeric: true, class: "wide", cell: (daemon) => String(daemon.processors ?? "–") },
      { name: "devices", class: "wide whole", cell: (daemon) => (daemon.devices?.length
        ? `${toNumber(daemon.devicesUsed)} of ${daemon.devices.length}: ${daemon.devices[0].name}` : "–") },
    ]),
    { name: "memory reserved", cell: (daemon) => share(toNumber(daemon.memoryReservedBytes), toNumber(daemon.memoryBytes), formatBytes) },
    { name: "address", class: "wide whole", cell: (daemon) => h("code", null, daemon.address) },
  ], daemons, (daemon) => daemon.id);
}

// Returns the daemons, first those that need somebody: lost ones, then those that are drained.
export function worstFirst(daemons, drains) {
  const draining = new Set(drains.map(({ serverId }) => serverId));
  const rank = ({ id, live }) => (!live ? 0 : draining.has(id) ? 1 : 2);
  return [...daemons].sort((a, b) => rank(a) - rank(b));
}

export function clusterView(context) {
  let cluster, jobs = [], polls = 0;
  return {
    title: () => "Cluster",
    poll: async () => {
      cluster = await api.cluster();
      if (polls++ % EVERY_JOBS === 0) ({ jobs } = await allJobs({ view: "WHOLE", states: ["PLACING", "RUNNING", "RECOVERING"], pageSize: MOST_JOBS }, MOST_JOBS));
    },
    draw: () => {
      if (!cluster) return [h("p", null, "Reading …")];
      const drains = cluster.drains ?? [];
      const of = (kind) => worstFirst((cluster.daemons ?? []).filter((daemon) => daemon.kind === kind), drains);
      const placed = jobs.filter((job) => !hasEnded(job) && job.partitions?.length);
      return [
        h("p", { key: "sentence", class: "lead" }, `${clusterSentence(cluster)}.`),
        h("h2", { key: "servers" }, "Servers"),
        of("SERVER").length ? daemonTable("SERVER", of("SERVER"), drains) : h("p", null, "There are no servers."),
        h("h2", { key: "workers" }, "Workers"),
        of("WORKER").length ? daemonTable("WORKER", of("WORKER"), drains) : h("p", null, "There are no workers."),
        h("h2", { key: "partitions" }, "Partitions of jobs"),
        placed.length === 0 ? h("p", { key: "none" }, "No job has partitions on servers now.") : table("Partitions of jobs", [
          { name: "job", class: "name", cell: (job) => h("a", { href: `/jobs/${encodeURIComponent(job.jobId)}` }, job.spec?.name || job.jobId) },
          { name: "partitions", numeric: true, cell: (job) => String(job.partitions.length) },
          { name: "shard map version", numeric: true, class: "wide", cell: (job) => String(job.shardMapVersion ?? 0) },
          { name: "on", cell: (job) => partitionText(job) },
        ], placed, (job) => job.jobId),
      ];
    },
  };
}
