/** The package: that all behaviours have a test, that it installs where nothing else is, and that its README runs there. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { VERSION } from "punctual";
import { findBinary, Server } from "punctual/testing";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);

function filesBelow(directory: string): string[] {
  const entries = readdirSync(directory, { withFileTypes: true });
  const below = entries.map((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
  return below.flat().sort();
}

test("every behaviour has a test", () => {
  const list = readFileSync(join(ROOT, "../conformance.md"), "utf8");
  const behaviours = [...list.matchAll(/^(\d+)\. /gm)].map(([, number]) => Number(number));
  assert.deepEqual(behaviours, behaviours.map((_, nth) => nth + 1));
  const texts = filesBelow(join(ROOT, "tests")).map((file) => readFileSync(file, "utf8"));
  const marks = texts.flatMap((text) => [...text.matchAll(/^\s*behaviour\(\[([\d, ]+)\]/gm)]);
  const tested = new Set(marks.flatMap(([, numbers]) => numbers!.split(",").map(Number)));
  assert.deepEqual([...tested].sort((a, b) => a - b), behaviours);
});

test("files are short and say what they are for", () => {
  for (const directory of ["src", "tests", "examples"]) {
    for (const file of filesBelow(join(ROOT, directory))) {
      const text = readFileSync(file, "utf8");
      assert(text.startsWith("/**"), file);
      const lines = text.split("\n");
      assert(lines.length <= 500, `${file}: ${lines.length} lines`);
      const long = lines.filter((line) => line.length > 140);
      assert.deepEqual(long, [], file);
    }
  }
});

/** The part of a package.json or package-lock.json that is compared. */
interface Manifest {
  readonly version: string;
  readonly dependencies?: object;
  readonly packages: { readonly "": { readonly version: string; readonly devDependencies: object } };
  readonly devDependencies: { readonly [name: string]: string };
}

function manifest(name: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, name), "utf8")) as Manifest;
}

test("versions are the same everywhere, and nothing is needed", () => {
  const { version, dependencies, devDependencies } = manifest("package.json");
  assert.deepEqual([version, dependencies], [VERSION, undefined]);
  const locked = manifest("package-lock.json").packages[""];
  assert.deepEqual([locked.version, locked.devDependencies], [VERSION, devDependencies]);
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  for (const name of ["typescript", "@types/node"]) assert(readme.includes(`${name}@${devDependencies[name]}`), name);
  assert(readme.includes(`punctual-${VERSION}.tgz`));
});

/** Makes the package, and installs it in a directory where nothing else is. */
async function install(directory: string): Promise<string> {
  const copy = join(directory, "source");
  mkdirSync(copy);
  for (const name of ["package.json", "package-lock.json", "tsconfig.json", "src", "README.md"]) {
    cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  const npm = (cwd: string, ...words: string[]) => run("npm", [...words, "--offline", "--no-audit", "--no-fund"], { cwd });
  await npm(copy, "pack");
  const clean = join(directory, "clean");
  mkdirSync(clean);
  writeFileSync(join(clean, "package.json"), '{ "name": "clean", "type": "module" }');
  await npm(clean, "install", join(copy, `punctual-${VERSION}.tgz`));
  return clean;
}

async function inClean(check: (clean: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "punctual-package-"));
  try {
    await check(await install(directory));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const SMOKE = `
import { App } from "punctual";
import { Engine } from "punctual/testing";

const app = new App({ queue: "smoke" });
const greet = app.task("greet", ({ name }) => "hello, " + name);
const engine = await Engine.start();
engine.work(app);
const task = await greet.insert({ name: "Ada" }, { delay: "1d" });
await engine.advance("1d");
console.log((await engine.client.get(task)).result);
await engine.stop();
`;

test("the package runs where nothing else is, and so does its README", async () => {
  await inClean(async (clean) => {
    const installed = readdirSync(join(clean, "node_modules")).filter((name) => !name.startsWith("."));
    assert.deepEqual(installed, ["punctual"]);
    const files = filesBelow(join(clean, "node_modules/punctual"));
    const strange = files.filter((file) => !/\/punctual\/(dist\/.*\.(js|d\.ts)|package\.json|README\.md)$/.test(file));
    assert.deepEqual(strange, []);
    writeFileSync(join(clean, "smoke.mjs"), SMOKE);
    const env = { PATH: process.env.PATH, PUNCTUAL_BIN: findBinary(), TMPDIR: tmpdir() };
    const ran = await run(process.execPath, ["smoke.mjs"], { cwd: clean, env });
    assert.deepEqual([ran.stdout, ran.stderr], ["hello, Ada\n", ""]);
    await readmeRuns(clean);
  });
});

/** Each block with a file's name above it is that file; the others of `ts` are run in their order, beside the worker. */
async function readmeRuns(clean: string): Promise<void> {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const blocks = readme.matchAll(/(?:^`([\w.]+)`:\n\n)?^```(ts|json)\n(.*?)^```$/gms);
  const scripts: string[] = [];
  for (const [, name, , text] of blocks) {
    const file = name ?? `block-${scripts.length}.ts`;
    writeFileSync(join(clean, file), text!);
    if (name === undefined || name === "first.ts") scripts.push(file);
  }
  assert(scripts.length >= 6, scripts.join());
  for (const name of ["typescript", "@types", "undici-types"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(clean, "node_modules", name));
  }
  // The blocks are files of their own, and so are their variables.
  await run(process.execPath, ["node_modules/typescript/bin/tsc"], { cwd: clean });
  const server = await Server.start();
  const env = { PATH: process.env.PATH, PUNCTUAL_URL: server.url, PUNCTUAL_BIN: findBinary(), TMPDIR: tmpdir() };
  const worker = spawn(process.execPath, ["worker.js"], { cwd: clean, env, stdio: "inherit" });
  const exited = once(worker, "exit");
  try {
    for (const script of scripts) {
      const text = readFileSync(join(clean, script), "utf8");
      const prints = [...text.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line]) => line);
      const ran = await run(process.execPath, [script.replace(/ts$/, "js")], { cwd: clean, env });
      assert.deepEqual([ran.stdout.trimEnd().split("\n"), ran.stderr], [prints, ""], text);
    }
    const tested = await run(process.execPath, ["--test", "app.test.js"], { cwd: clean, env });
    assert.match(tested.stdout, /pass 1\n/);
  } finally {
    worker.kill("SIGTERM");
    assert.deepEqual(await exited, [0, null]);
    await server.stop();
  }
}
