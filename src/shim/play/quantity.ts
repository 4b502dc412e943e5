export { parseQuantity } from "../domain/quantity.js";
