// A question to CHECK-POLICY, and its answer.

export const FIELDS = ["user", "host", "hostname", "tokenGroups", "address", "direction"] as const;

export type Question = Readonly<Partial<Record<(typeof FIELDS)[number], string>>>;

export interface Verdict {
  readonly allowed: boolean;
  readonly reasons: readonly string[];
}

/** The body of a request, from the fields of a form. A name that begins with `$` is one that listeners give, not clients. */
export function bodyOf(question: Question): Record<string, unknown> {
  const { user = "", host = "", hostname = "", tokenGroups = "", address = "", direction = "" } = question;
  return {
    ...(user ? { user } : {}),
    ...(hostname ? { [hostname.startsWith("$") ? "policyVhost" : "hostname"]: hostname } : {}),
    ...(tokenGroups ? { tokenGroups: tokenGroups.split(",").map((name) => name.trim()).filter(Boolean) } : {}),
    host: host.trim(), address, direction: direction || "in",
  };
}

export function verdictOf(body: unknown): Verdict {
  const { allowed, reasons } = (body ?? {}) as { allowed?: unknown; reasons?: unknown };
  return { allowed: allowed === true, reasons: Array.isArray(reasons) ? reasons.map(String) : [] };
}
