// Running sums and the like over a tile.
#pragma once
#include <cooperative_groups/reduce.h>

namespace cooperative_groups {
template <class Group, class T, class Operation = plus<T>>
DSE_DEVICE T inclusive_scan(Group group, T value, Operation operation = {})
{
#pragma unroll
    for (unsigned by = 1; by < group.size(); by *= 2) {
        const T before = group.shfl_up(value, by);
        value = group.thread_rank() < by ? value : operation(before, value);
    }
    return value;
}
template <class Group, class T, class Operation = plus<T>>
DSE_DEVICE T exclusive_scan(Group group, T value, Operation operation = {})
{
    const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
    return group.thread_rank() == 0 ? T() : before;
}
} // namespace cooperative_groups
