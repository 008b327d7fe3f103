// Searches on Gram records in Node; a page gives `searchOf` an instance of its own.
"use strict";
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const { searchOf } = require("./search.js");

let search = null;

function anytimeSequence(record, target, options) {
  if (search === null) {
    const bytes = readFileSync(join(__dirname, "search.wasm"));
    search = searchOf(new WebAssembly.Instance(new WebAssembly.Module(bytes), {}));
  }
  return search(record, target, options);
}

module.exports = { anytimeSequence, searchOf };
