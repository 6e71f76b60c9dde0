// Lines of a log as GET-LOG gives them.

export interface Line {
  readonly at: number;
  readonly module: string;
  readonly level: string;
  readonly text: string;
}

/** The lines of a reply: [module, level, text, file, line, seconds since 1970]. */
export function linesOf(body: unknown): Line[] {
  if (!Array.isArray(body)) return [];
  return body.filter(Array.isArray).map((line: readonly unknown[]) => ({
    module: String(line[0]), level: String(line[1]), text: String(line[2]), at: Number(line[5]),
  }));
}
