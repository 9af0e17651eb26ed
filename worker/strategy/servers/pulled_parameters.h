#ifndef MUSTER_WORKER_STRATEGY_SERVERS_PULLED_PARAMETERS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_PULLED_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/unit_places.h"
#include "common/tensor/dtype.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "worker/nn/model_parameters.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/servers/dense_runs.h"

namespace muster {

// The parameters that a worker pulls, each in the type that it needs: 16 bits for parameters that
// it computes with only in 16 bits, otherwise f32. Either all units have memory, or only units in
// flight (UnitPlaces). Addresses never change. Thread-safe for runs whose places do not overlap.
class PulledParameters {
 public:
  // Zeros, in registered memory if there is some. `types`: by tensor (see PulledTypes).
  PulledParameters(const DenseLayout& layout, absl::Span<const TensorSpec> tensors,
                   absl::Span<const DType> types, UnitPlaces::Holding holding,
                   std::shared_ptr<RegisteredMemory> registered = nullptr);

  // Says which units share a place, and which are tied to which.
  const UnitPlaces& places() const { return places_; }

  // Return the type in which a run's values are kept, and the bytes of their place.
  DType TypeOf(const DenseRun& run) const { return StretchOf(run).type; }
  absl::Span<std::byte> PlaceOf(const DenseRun& run);
  // Writes a run's payload, whose elements are of type `wire`, to the run's place, rounded if
  // needed. REQUIRES: the payload has as many elements as the run.
  void Take(const DenseRun& run, DType wire, const Payload& payload);

  // Returns each tensor in one of the two lists: what is kept in 16 bits is `rounded`.
  ModelParameters parameters() const { return {values_, rounded_}; }

 private:
  // Neighbouring elements of the flat space that have the same part and type.
  struct TypeStretch {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t part = 0;
    DType type = DType::kF32;
    // The byte of the memory at which the stretch begins.
    size_t offset = 0;
  };

  const TypeStretch& StretchAt(uint64_t element) const;
  const TypeStretch& StretchOf(const DenseRun& run) const { return StretchAt(run.begin); }
  std::byte* AddressOf(uint64_t element) const;

  const UnitPlaces places_;
  // The stretches in order; each has elements.
  std::vector<TypeStretch> stretches_;
  std::optional<ArenaMemory> memory_;
  std::vector<absl::Span<const float>> values_;
  std::vector<const void*> rounded_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_PULLED_PARAMETERS_H_
