// The pages, in the order of the navigation.
import type { PageEntry } from "../parts/console.tsx";
import { Addresses } from "./addresses.tsx";
import { Connections } from "./connections.tsx";
import { Links } from "./links.tsx";
import { Overview } from "./overview.tsx";

export const PAGES: readonly PageEntry[] = [
  { name: "overview", title: "Overview", view: Overview },
  { name: "addresses", title: "Addresses", view: Addresses },
  { name: "links", title: "Links", view: Links },
  { name: "connections", title: "Connections", view: Connections },
];
