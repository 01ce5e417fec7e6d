/** Plait for Java: trains GPT-style models inside a JVM. The public part is {@link dev.plait}. */
module dev.plait {
  exports dev.plait;
}
