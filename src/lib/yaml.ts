/** For a dynamic import: a bundle cannot tell the names that a CommonJS package exports. */
export {
  Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseAllDocuments,
  parseDocument,
  stringify,
  visit,
} from "yaml";
