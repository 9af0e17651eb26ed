#ifndef MUSTER_COMMON_COMPUTE_DEVICE_EXPERT_OPS_H_
#define MUSTER_COMMON_COMPUTE_DEVICE_EXPERT_OPS_H_

#include <cstdint>

#include "common/compute/device_workspace.h"
#include "common/compute/expert_ops.h"
#include "common/device/device.h"

namespace muster {

// ExpertOps on a device: launches common/kernels/device on one stream, to which failures go. The
// same bits every time.
class DeviceExpertOps final : public ExpertOps {
 public:
  // `stream` outlives this. Of the scratch, RouteBackward takes DeviceRouteBackwardScratch floats.
  DeviceExpertOps(DeviceStream& stream, const DeviceWorkspace& scratch)
      : stream_(stream), scratch_(scratch) {}

  void Route(const RouterShape& shape, const RouteArrays& arrays) override;
  void CountChosen(const RouterShape& shape, const int32_t* chosen, const CountedTokens& counted,
                   float* counts) override;
  void LimitChosen(const RouterShape& shape, const int32_t* chosen, const ChoiceLimit& limit,
                   int32_t* placed) override;
  void LoadDirection(int64_t experts, const LoadDirectionArrays& arrays) override;
  void AddLoads(int64_t experts, const int32_t* offsets, uint64_t* loads) override;
  void RouteBackward(const RouterShape& shape, DType type,
                     const RouteBackwardArrays& arrays) override;
  void OrderRows(const RouterShape& shape, const int32_t* chosen, const ExpertRows& rows) override;
  void OrderHostedRows(const HostedRowsShape& shape, const int32_t* rank_offsets, int32_t* offsets,
                       int32_t* numbers) override;
  void GatherRows(const TokenRowsShape& shape, const void* x, const int32_t* assignments,
                  void* rows) override;
  void CombineRows(const TokenRowsShape& shape, const CombineArrays& arrays) override;
  void Linear(const ExpertLinear& linear, const int32_t* offsets, const void* x, const void* weight,
              void* y) override;
  void LinearBackwardInput(const ExpertLinear& linear, const int32_t* offsets, const void* dy,
                           const void* weight, void* dx) override;
  void LinearBackwardWeights(const ExpertLinear& linear, const int32_t* offsets,
                             const ExpertLinearGradientArrays& arrays) override;
  void Activate(const ExpertActivation& activation, const ExpertActivationArrays& arrays) override;
  void ActivateBackward(const ExpertActivation& activation,
                        const ExpertActivationGradientArrays& arrays) override;
  void GateRows(const TokenRowsShape& shape, const GateRowsArrays& arrays) override;
  void GateRowsBackward(const TokenRowsShape& shape, const GateRowsGradientArrays& arrays) override;

 private:
  DeviceStream& stream_;
  DeviceWorkspace scratch_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_DEVICE_EXPERT_OPS_H_
