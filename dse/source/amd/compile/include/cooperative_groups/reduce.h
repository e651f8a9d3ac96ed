// Sums and the like over a tile, by exchanges between lanes.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {
#define DSE_GROUP_OPERATION(name, value)                                                                               \
    template <class T = void> struct name {                                                                            \
        DSE_DEVICE T operator()(T a, T b) { return value; }                                                            \
    };
DSE_GROUP_OPERATION(plus, a + b) DSE_GROUP_OPERATION(less, b < a ? b : a) DSE_GROUP_OPERATION(greater, a < b ? b : a)
DSE_GROUP_OPERATION(bit_and, a & b) DSE_GROUP_OPERATION(bit_or, a | b) DSE_GROUP_OPERATION(bit_xor, a ^ b)
template <class Group, class T, class Operation> DSE_DEVICE T reduce(Group group, T value, Operation operation)
{
#pragma unroll
    for (unsigned by = group.size() / 2; by > 0; by /= 2) value = operation(value, group.shfl_xor(value, by));
    return value;
}
} // namespace cooperative_groups
