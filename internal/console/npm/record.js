// Writes built.json and the licences, for scripts/console-modules.sh.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const packages = { preact: ["preact", "htm"], uplot: ["uplot"], tidemark: [] };
const lock = JSON.parse(readFileSync("package-lock.json")).packages;
const sha256 = (...texts) => texts.reduce((hash, text) => hash.update(text), createHash("sha256")).digest("hex");

const client = "../../../clients/typescript/";
const sources = readdirSync(client + "src").filter((name) => name !== "api.ts").sort();
const built = { client: sha256(...sources.map((name) => readFileSync(client + "src/" + name))), files: {} };
let licences = "";
for (const [file, names] of Object.entries(packages)) {
  const of = names.map((name) => {
    const { version, license, integrity } = lock["node_modules/" + name];
    const text = readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
    licences += `${name} ${version} (${license}), in ${file}.js\n\n${text}\n\n\n`;
    return { name, version, license, integrity };
  });
  built.files[file + ".js"] = { sha256: sha256(readFileSync(`../web/lib/${file}.js`)), packages: of };
}
writeFileSync("../web/lib/LICENSES.txt", licences.trimEnd() + "\n");
writeFileSync("built.json", JSON.stringify(built, null, 2) + "\n");
