// Where the reader is, as in the fragment of the address: `#/links?router=A&search=orders`.

export interface Place {
  readonly page: string;
  readonly given: Readonly<Record<string, string>>;
}

export function placeOf(fragment: string): Place {
  const [path = "", query = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  return { page: path || "overview", given: Object.fromEntries(new URLSearchParams(query)) };
}

/** The fragment of a place; values that are "" are left out. */
export function fragmentOf(page: string, given: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== "")).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
}
