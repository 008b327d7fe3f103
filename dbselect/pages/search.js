// The compiled searches: a question and its answer pass as JSON through the module's memory.
// The same file serves pages and Node.
"use strict";

// Return a function (record, target, options) of an instance of search.wasm. A refusal is an
// Error whose name is the class that Python raises.
function searchOf(instance) {
  const { memory, dbselect_alloc, dbselect_free, dbselect_ask } = instance.exports;
  const plain = (_, value) => typeof value === "bigint" ? Number(value) : value;
  return (record, target, { method, ...options } = {}) => {
    const text = JSON.stringify({ record, target, method, options }, plain);
    const question = new TextEncoder().encode(text);
    const start = dbselect_alloc(question.length);
    new Uint8Array(memory.buffer, start, question.length).set(question);
    const answer = dbselect_ask(start, question.length) >>> 0;
    dbselect_free(start, question.length);
    const length = new DataView(memory.buffer).getUint32(answer, true);
    const told = new TextDecoder().decode(new Uint8Array(memory.buffer, answer + 4, length));
    dbselect_free(answer, length + 4);
    const found = JSON.parse(told);
    if (found.error === undefined) { return found; }
    const [, name, message] = /^(\w+Error): ([^]*)$/.exec(found.error) ?? [0, "Error", found.error];
    throw Object.assign(new Error(message), { name });
  };
}

if (typeof module !== "undefined") { module.exports = { searchOf }; }
