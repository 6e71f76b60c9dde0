// Bundles the console into the folder that is its argument: one script, one style sheet, one page, each also compressed.
import { build } from "esbuild";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const out = process.argv[2];
const { metafile } = await build({
  metafile: true,
  entryPoints: [{ in: "main.tsx", out: "console" }],
  outdir: out,
  bundle: true,
  minify: true,
  target: "es2022",
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  // Its other form needs modules of Node.
  alias: { rhea: "rhea/dist/rhea-umd.js" },
  logLevel: "warning",
});
copyFileSync("index.html", `${out}/index.html`);
copyFileSync("icon.svg", `${out}/icon.svg`);

// The licences of all packages that are in the bundle.
const inputs = Object.keys(metafile.inputs).map((path) => /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(path));
const packages = new Map(inputs.filter(Boolean).map(([, folder, name]) => [name, folder]));
const licences = [...packages].sort().map(([name, folder]) => {
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (!file) throw new Error(`${name} has no file with its licence`);
  return `${name}\n\n${readFileSync(`${folder}/${file}`, "utf8")}`;
});
writeFileSync(`${out}/licences.txt`, licences.join(`\n${"-".repeat(72)}\n\n`));

// The same packages with their versions, for the bill of materials of images and releases (CycloneDX).
const locked = JSON.parse(readFileSync("package-lock.json", "utf8")).packages;
const components = [...packages.keys()].sort().map((name) => {
  const { version, license } = locked[`node_modules/${name}`] ?? JSON.parse(readFileSync(`${packages.get(name)}/package.json`, "utf8"));
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  return { type: "library", "bom-ref": purl, name, version, purl, licenses: [{ license: { id: license } }] };
});
const bill = { bomFormat: "CycloneDX", specVersion: "1.6", version: 1, components };
writeFileSync(`${out}/sbom.cdx.json`, `${JSON.stringify(bill, null, 1)}\n`);

for (const name of readdirSync(out)) {
  if (!name.endsWith(".gz")) writeFileSync(`${out}/${name}.gz`, gzipSync(readFileSync(`${out}/${name}`), { level: 9 }));
}
