/** For tests of applications: `Engine`, a real server whose time a test moves. Needs the program `punctual`: in the `PATH`, or
 * named by `PUNCTUAL_BIN`. */
export { Engine } from "./engine.js";
export { findBinary, Server, type ServerOptions } from "./server.js";
