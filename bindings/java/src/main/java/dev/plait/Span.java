package dev.plait;

/**
 * A run of rows of a global batch.
 *
 * @param first the first row
 * @param count how many
 */
public record Span(long first, long count) {}
