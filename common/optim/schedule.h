#ifndef MUSTER_COMMON_OPTIM_SCHEDULE_H_
#define MUSTER_COMMON_OPTIM_SCHEDULE_H_

#include <cstdint>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class ScheduleSpec;
}  // namespace v1

// Learning rates by clock. With W = warmup_steps, the first W steps take base · (clock + 1) / W, so
// that step W - 1 is the first at the full rate. From clock W on, with s = clock - W:
//
//   constant (or empty)   base
//   step                  base · factor^⌊s / period⌋
//   linear                base · (1 - (1 - f) p)
//   cosine                base · (f + (1 - f) (1 + cos(πp)) / 2)
//                         Loshchilov, Hutter 2017, eq. 5, one period
//   cosine_restarts       base · (f + (1 - f) (1 + cos(π t / T_i)) / 2), t steps after the last
//                         restart; T_0 = period, T_i = period · period_growth^i, rounded
//                         Loshchilov, Hutter 2017 (SGDR), eq. 5
//   inverse_square_root   base · √(max(W, 1) / (clock + 1))
//                         Vaswani et al. 2017, eq. 3, peak `base`
//   warmup_stable_decay   base until clock B, then base · (f + (1 - f) left(q)); left(q) is by
//                         decay_shape linear (or empty): 1 - q, cosine: (1 + cos(πq)) / 2,
//                         square_root: 1 - √q
//                         Hu et al. 2024 (MiniCPM), section 4; Hägele et al. 2024, 1 - √q
//   piecewise_constant    base · the factor of the last point at or before the clock
//   piecewise_linear      base · a factor on the straight line between the points around the
//                         clock; after the last one, that one's
//
// p = min(1, s / (T - W)), f = final_fraction; T is the specification's total_steps, or the job's
// where that is 0. B = max(W, T - decay_steps), and q = min(1, (clock - B) / (T - B)). Points are
// at clocks, and before the first there is one at clock W with factor 1.

// Checks a specification. InvalidArgument: the name is unknown, a value is out of range, or the
// schedule does not use a field; the message names the field, the value and what would be right.
absl::Status ValidateSchedule(const v1::ScheduleSpec& spec);

// Returns the learning rate of the step at `clock` (from 0) of a job of `total_steps`, times what
// was decided for that clock while the job ran (Adjustment.rate_factor). Does not scale by the
// batch: whoever makes a job's tables passes ScaledLearningRate as `base`, so servers and replicas
// need not know the batch. REQUIRES: a valid specification.
float LearningRate(const v1::ScheduleSpec& spec, float base, uint64_t clock, uint64_t total_steps,
                   double rate_factor = 1);

// Returns what a rate that was chosen for base_batch_size is multiplied by in steps of `batch_size`
// examples. With k = batch_size / base_batch_size:
//
//   none (or empty)   1
//   linear            k      (Goyal et al. 2017, section 2.1; usually with warm-up)
//   square_root       √k     (Krizhevsky 2014, section 5; usual with Adam)
//
// REQUIRES: a valid specification.
double BatchScale(const v1::ScheduleSpec& spec, int64_t batch_size);

// Returns the rate for steps of `batch_size` examples when `rate` was chosen for base_batch_size.
// REQUIRES: a valid specification.
float ScaledLearningRate(const v1::ScheduleSpec& spec, float rate, uint32_t batch_size);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_SCHEDULE_H_
