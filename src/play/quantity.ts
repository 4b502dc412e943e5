export { parseQuantity } from "../shim/domain/quantity.js";
