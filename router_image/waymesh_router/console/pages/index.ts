// The pages, in the order of the navigation.
import type { PageEntry } from "../parts/console.tsx";
import { Addresses } from "./addresses.tsx";
import { Autolinks } from "./autolinks.tsx";
import { Certificates } from "./certificates.tsx";
import { Connections } from "./connections.tsx";
import { Entities } from "./entities.tsx";
import { Events } from "./events.tsx";
import { Flow } from "./flow.tsx";
import { Links } from "./links.tsx";
import { LogTail } from "./log.tsx";
import { Overview } from "./overview.tsx";
import { Policy } from "./policy.tsx";
import { ReportPage } from "./report.tsx";
import { Topology } from "./topology.tsx";

export const PAGES: readonly PageEntry[] = [
  { name: "overview", title: "Overview", view: Overview },
  { name: "topology", title: "Topology", view: Topology },
  { name: "flow", title: "Message flow", view: Flow },
  { name: "addresses", title: "Addresses", view: Addresses },
  { name: "links", title: "Links", view: Links },
  { name: "connections", title: "Connections", view: Connections },
  { name: "autolinks", title: "Autolinks and link routes", view: Autolinks },
  { name: "policy", title: "Policy", view: Policy },
  { name: "certificates", title: "Certificates", view: Certificates },
  { name: "entities", title: "Entities", view: Entities },
  { name: "events", title: "Events", view: Events },
  { name: "log", title: "Log", view: LogTail },
  { name: "report", title: "Report", view: ReportPage, whole: true },
];
