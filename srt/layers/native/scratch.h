// Memory that calls use again.

#pragma once

#include <cstddef>
#include <vector>

// The scratch of one call lives as long as its thread, so that its pages are mapped once.
template <typename Value> Value* grown(std::vector<Value>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
    return buffer.data();
}
