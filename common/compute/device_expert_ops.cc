#include "common/compute/device_expert_ops.h"

#include "common/kernels/device/experts/device_expert_linear.h"
#include "common/kernels/device/experts/device_expert_rows.h"
#include "common/kernels/device/experts/device_router.h"

namespace muster {

void DeviceExpertOps::Route(const RouterShape& shape, const RouteArrays& arrays) {
  DeviceRoute(stream_, shape, arrays);
}

void DeviceExpertOps::CountChosen(const RouterShape& shape, const int32_t* chosen,
                                  const CountedTokens& counted, float* counts) {
  DeviceCountChosen(stream_, shape, chosen, counted, counts);
}

void DeviceExpertOps::LimitChosen(const RouterShape& shape, const int32_t* chosen,
                                  const ChoiceLimit& limit, int32_t* placed) {
  DeviceLimitChosen(stream_, shape, chosen, limit, placed);
}

void DeviceExpertOps::LoadDirection(int64_t experts, const LoadDirectionArrays& arrays) {
  DeviceLoadDirection(stream_, experts, arrays);
}

void DeviceExpertOps::AddLoads(int64_t experts, const int32_t* offsets, uint64_t* loads) {
  DeviceAddLoads(stream_, experts, offsets, loads);
}

void DeviceExpertOps::RouteBackward(const RouterShape& shape, DType type,
                                    const RouteBackwardArrays& arrays) {
  float* const scratch =
      arrays.sums != nullptr ? scratch_.Floats(DeviceRouteBackwardScratch(shape.tokens)) : nullptr;
  DeviceRouteBackward(stream_, shape, type, arrays, scratch);
}

void DeviceExpertOps::OrderRows(const RouterShape& shape, const int32_t* chosen,
                                const ExpertRows& rows) {
  DeviceOrderRows(stream_, shape, chosen, rows);
}

void DeviceExpertOps::OrderHostedRows(const HostedRowsShape& shape, const int32_t* rank_offsets,
                                      int32_t* offsets, int32_t* numbers) {
  DeviceOrderHostedRows(stream_, shape, rank_offsets, offsets, numbers);
}

void DeviceExpertOps::GatherRows(const TokenRowsShape& shape, const void* x,
                                 const int32_t* assignments, void* rows) {
  DeviceGatherRows(stream_, shape, x, assignments, rows);
}

void DeviceExpertOps::CombineRows(const TokenRowsShape& shape, const CombineArrays& arrays) {
  DeviceCombineRows(stream_, shape, arrays);
}

void DeviceExpertOps::Linear(const ExpertLinear& linear, const int32_t* offsets, const void* x,
                             const void* weight, void* y) {
  DeviceExpertLinear(stream_, linear, offsets, x, weight, y);
}

void DeviceExpertOps::LinearBackwardInput(const ExpertLinear& linear, const int32_t* offsets,
                                          const void* dy, const void* weight, void* dx) {
  DeviceExpertLinearBackwardInput(stream_, linear, offsets, dy, weight, dx);
}

void DeviceExpertOps::LinearBackwardWeights(const ExpertLinear& linear, const int32_t* offsets,
                                            const ExpertLinearGradientArrays& arrays) {
  DeviceExpertLinearBackwardWeights(stream_, linear, offsets, arrays);
}

void DeviceExpertOps::Activate(const ExpertActivation& activation,
                               const ExpertActivationArrays& arrays) {
  DeviceActivateExperts(stream_, activation, arrays);
}

void DeviceExpertOps::ActivateBackward(const ExpertActivation& activation,
                                       const ExpertActivationGradientArrays& arrays) {
  DeviceActivateExpertsBackward(stream_, activation, arrays);
}

void DeviceExpertOps::GateRows(const TokenRowsShape& shape, const GateRowsArrays& arrays) {
  DeviceGateRows(stream_, shape, arrays);
}

void DeviceExpertOps::GateRowsBackward(const TokenRowsShape& shape,
                                       const GateRowsGradientArrays& arrays) {
  DeviceGateRowsBackward(stream_, shape, arrays);
}

}  // namespace muster
