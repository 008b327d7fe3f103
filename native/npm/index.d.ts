/** A Gram record, as `gram(t)` returns it in DuckDB, or `Gram.to_struct()` in Python. */
export interface GramRecord {
  columns: string[];
  rows: number | bigint;
  skipped?: number | bigint;
  missing?: (number | bigint)[] | null;
  weight: number;
  mean: number[];
  mean_low?: number[] | null;
  /** Lower triangle, row by row. */
  comoment: number[];
  terms?: string | null;
}

export interface Options {
  /** Default "anytime_sequence"; also "foba", "backward", "floating", "step", with their options. */
  method?: string;
  /** Name of each group and its columns or globs; default: a group for each field. */
  groups?: Record<string, string[]> | [string, string[]][];
  /** Name of each group and its cost > 0; default: 1 each. */
  costs?: Record<string, number> | [string, number][];
  /** Set-ups, which the first of their groups pays; then a cost may be 0. */
  shared?: Record<string, { cost: number; groups: string[] }>;
  /** Group -> groups that must be bought with it. */
  needs?: Record<string, string[]>;
  /** Lists of groups, of each at most one. */
  one_of?: string[][];
  /** Further units beside the budget. */
  limits?: Record<string, { costs: Record<string, number>; limit: number; how?: "sum" | "max" }>;
  rule?: "fr" | "omp" | "omp-unwhitened" | "omp-single" | "doubling";
  ridge?: number;
  scale?: boolean;
  intercept?: boolean;
  /** Groups to take first. */
  always?: string[];
  /** Groups to leave out, with those that need them. */
  exclude?: string[];
  /** Limit on the summed cost. */
  budget?: number;
  max_groups?: number;
  /** Budgets of the bounds; default: what each step spent. */
  budgets?: number[];
  [option: string]: unknown;
}

export interface Step {
  step: number;
  action: "start" | "add" | "remove";
  group: string | null;
  cost: number;
  spent: number;
  score: number | null;
  gain: number;
  explained: number;
  r2: number;
  useful: boolean;
  intercept: number;
  coefficients: Record<string, number>;
}

export interface Sequence {
  steps: Step[];
  /** Why it ended: "EXHAUSTED", "BUDGET", "MAX_GROUPS", ... */
  stop: string;
  /** Columns that depend linearly on columns before them. */
  aliased: string[];
  /** Condition number of the selected columns' correlations. */
  condition: number;
  budgets: number[];
  /** The most that any groups within each budget explain. */
  bounds: number[];
  /** Groups that were left out. */
  excluded: string[];
  /** The conditions on the others: `shared`, `needs`, `one_of` and `limits`. */
  conditions: Record<string, unknown>;
}

/** Order groups of columns by the prediction they buy for their cost. */
export function anytimeSequence(record: GramRecord, target: string, options?: Options): Sequence;

/** The same of an instance of search.wasm, for pages and other runtimes. */
export function searchOf(
  instance: WebAssembly.Instance,
): (record: GramRecord, target: string, options?: Options) => Sequence;
