#include "common/partition/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "common/base/philox.h"
#include "common/partition/local_tensors.h"

namespace muster {
namespace {

constexpr int kLanes = 4;

float UnitInterval(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

std::array<float, kLanes> Uniforms(const std::array<uint32_t, kLanes>& bits, float scale) {
  std::array<float, kLanes> values;
  for (int i = 0; i < kLanes; ++i) values[i] = (2.0f * UnitInterval(bits[i]) - 1.0f) * scale;
  return values;
}

std::array<float, kLanes> Normals(const std::array<uint32_t, kLanes>& bits, float scale) {
  std::array<float, kLanes> values;
  for (int i = 0; i < kLanes; i += 2) {
    // 1 - u lies in (0, 1], so that the logarithm is finite.
    const float radius = scale * std::sqrt(-2.0f * std::log(1.0f - UnitInterval(bits[i])));
    const float angle = 2.0f * std::numbers::pi_v<float> * UnitInterval(bits[i + 1]);
    values[i] = radius * std::cos(angle);
    values[i + 1] = radius * std::sin(angle);
  }
  return values;
}

// Writes elements [begin, begin + values.size()) of the sequence numbered `sequence`: 0 for a dense
// tensor, a row's key for a sparse one.
void Fill(const Initializer& initializer, uint64_t seed, const std::string& name, uint64_t sequence,
          uint64_t begin, absl::Span<float> values) {
  if (initializer.kind == Initializer::Kind::kConstant) {
    std::fill(values.begin(), values.end(), initializer.value);
    return;
  }
  const auto four = initializer.kind == Initializer::Kind::kUniform ? Uniforms : Normals;
  const Philox random(seed, "init", name);
  for (size_t done = 0; done < values.size();) {
    const uint64_t index = begin + done;
    const auto lanes = four(random.At(index / kLanes, sequence), initializer.scale);
    const size_t lane = index % kLanes;
    const size_t count = std::min(kLanes - lane, values.size() - done);
    std::copy_n(lanes.begin() + lane, count, values.begin() + done);
    done += count;
  }
}

}  // namespace

void InitialValues(const TensorSpec& tensor, uint64_t seed, uint64_t begin,
                   absl::Span<float> values) {
  ForEachGlobal(tensor, begin, begin + values.size(),
                [&](uint64_t first, uint64_t global, uint64_t count) {
                  Fill(tensor.initializer, seed, tensor.name, 0, global,
                       values.subspan(first - begin, count));
                });
}

void InitialRow(const SparseTableSpec& table, uint64_t seed, uint64_t key, absl::Span<float> row) {
  Fill(table.initializer, seed, table.name, key, 0, row);
}

}  // namespace muster
