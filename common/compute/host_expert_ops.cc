#include "common/compute/host_expert_ops.h"

#include "common/compute/with_type.h"
#include "common/kernels/moe/expert_activation.h"
#include "common/kernels/moe/expert_linear.h"
#include "common/kernels/moe/expert_rows.h"
#include "common/kernels/moe/router.h"

namespace muster {

void HostExpertOps::Route(const RouterShape& shape, const RouteArrays& arrays) {
  muster::Route(shape, arrays);
}

void HostExpertOps::CountChosen(const RouterShape& shape, const int32_t* chosen,
                                const CountedTokens& counted, float* counts) {
  muster::CountChosen(shape, chosen, counted, counts);
}

void HostExpertOps::LimitChosen(const RouterShape& shape, const int32_t* chosen,
                                const ChoiceLimit& limit, int32_t* placed) {
  muster::LimitChosen(shape, chosen, limit, placed);
}

void HostExpertOps::LoadDirection(int64_t experts, const LoadDirectionArrays& arrays) {
  muster::LoadDirection(experts, arrays);
}

void HostExpertOps::AddLoads(int64_t experts, const int32_t* offsets, uint64_t* loads) {
  for (int64_t e = 0; e < experts; ++e) loads[e] += offsets[e + 1] - offsets[e];
}

void HostExpertOps::RouteBackward(const RouterShape& shape, DType type,
                                  const RouteBackwardArrays& arrays) {
  WithType(type, [&](auto zero) { muster::RouteBackward<decltype(zero)>(shape, arrays); });
}

void HostExpertOps::OrderRows(const RouterShape& shape, const int32_t* chosen,
                              const ExpertRows& rows) {
  muster::OrderRows(shape, chosen, rows);
}

void HostExpertOps::OrderHostedRows(const HostedRowsShape& shape, const int32_t* rank_offsets,
                                    int32_t* offsets, int32_t* numbers) {
  muster::OrderHostedRows(shape, rank_offsets, offsets, numbers);
}

void HostExpertOps::GatherRows(const TokenRowsShape& shape, const void* x,
                               const int32_t* assignments, void* rows) {
  muster::GatherRows(shape, x, assignments, rows);
}

void HostExpertOps::CombineRows(const TokenRowsShape& shape, const CombineArrays& arrays) {
  WithType(shape.type, [&](auto zero) { muster::CombineRows<decltype(zero)>(shape, arrays); });
}

void HostExpertOps::Linear(const ExpertLinear& linear, const int32_t* offsets, const void* x,
                           const void* weight, void* y) {
  WithType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    ExpertLinearForward(linear, offsets, static_cast<const T*>(x), static_cast<const T*>(weight),
                        static_cast<T*>(y));
  });
}

void HostExpertOps::LinearBackwardInput(const ExpertLinear& linear, const int32_t* offsets,
                                        const void* dy, const void* weight, void* dx) {
  WithType(linear.type, [&](auto zero) {
    using T = decltype(zero);
    ExpertLinearBackwardInput(linear, offsets, static_cast<const T*>(dy),
                              static_cast<const T*>(weight), static_cast<T*>(dx));
  });
}

void HostExpertOps::LinearBackwardWeights(const ExpertLinear& linear, const int32_t* offsets,
                                          const ExpertLinearGradientArrays& arrays) {
  WithType(linear.type, [&](auto zero) {
    ExpertLinearBackwardWeights<decltype(zero)>(linear, offsets, arrays);
  });
}

void HostExpertOps::Activate(const ExpertActivation& activation,
                             const ExpertActivationArrays& arrays) {
  WithType(activation.type,
           [&](auto zero) { ActivateExperts<decltype(zero)>(activation, arrays); });
}

void HostExpertOps::ActivateBackward(const ExpertActivation& activation,
                                     const ExpertActivationGradientArrays& arrays) {
  WithType(activation.type,
           [&](auto zero) { ActivateExpertsBackward<decltype(zero)>(activation, arrays); });
}

void HostExpertOps::GateRows(const TokenRowsShape& shape, const GateRowsArrays& arrays) {
  WithType(shape.type, [&](auto zero) { muster::GateRows<decltype(zero)>(shape, arrays); });
}

void HostExpertOps::GateRowsBackward(const TokenRowsShape& shape,
                                     const GateRowsGradientArrays& arrays) {
  WithType(shape.type, [&](auto zero) { muster::GateRowsBackward<decltype(zero)>(shape, arrays); });
}

}  // namespace muster
