#ifndef MUSTER_COMMON_COMPUTE_OPS_CONTRACT_H_
#define MUSTER_COMMON_COMPUTE_OPS_CONTRACT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "common/compute/ops.h"
#include "common/compute/with_type.h"
#include "gtest/gtest.h"

namespace muster {

// The contract of Ops: each operation gives what common/kernels, called directly, gives. The cases
// (ops_contract_*.cc) are linked with one or more files that instantiate OpsContractTest for their
// implementation.

// An implementation, with memory for it.
class OpsUnderTest {
 public:
  virtual ~OpsUnderTest() = default;
  virtual Ops& ops() = 0;
  // Lives as long as this.
  virtual void* Allocate(size_t bytes) = 0;
  // Returns whether this machine's hardware has room for the shape.
  virtual bool Takes(const AttentionShape&, DType) const { return true; }
  // Returns EmbeddingTokens::order, on the host; empty for ops on processors.
  virtual std::vector<int32_t> TokenOrder(const std::vector<int32_t>& tokens,
                                          int64_t vocabulary) = 0;
};

struct OpsImplementation {
  const char* name;
  // Unavailable: this machine has no such hardware; its tests are skipped.
  absl::StatusOr<std::unique_ptr<OpsUnderTest>> (*make)();
  // Results have the reference's bits, or lie within each case's bounds of it.
  enum class Match { kBits, kClose };
  Match match;
};

// An array on the host whose type is known when the test runs. All ones at first, which are NaNs.
class HostArray {
 public:
  HostArray(DType type, int64_t size)
      : type_(type), size_(size), bytes_(size * SizeOf(type), 255) {}

  DType type() const { return type_; }
  int64_t size() const { return size_; }
  size_t bytes() const { return bytes_.size(); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  template <typename T>
  T* As() {
    return static_cast<T*>(data());
  }
  template <typename T>
  const T* As() const {
    return static_cast<const T*>(data());
  }

  float Get(int64_t i) const;
  // Rounds.
  void Set(int64_t i, float value);

 private:
  DType type_;
  int64_t size_;
  std::vector<unsigned char> bytes_;
};

// Half a unit in the last place, relative.
double RoundingOf(DType type);

// Parameterised by implementation and type of computation.
class OpsContractTest : public testing::TestWithParam<std::tuple<OpsImplementation, DType>> {
 protected:
  void SetUp() override;

  Ops& ops() { return made_->ops(); }
  bool Takes(const AttentionShape& shape) const { return made_->Takes(shape, type()); }
  DType type() const { return std::get<DType>(GetParam()); }
  const OpsTraits& traits() { return ops().traits(); }

  // Uniform in [low, high), rounded to the type.
  static HostArray Random(DType type, int64_t n, uint32_t seed, float low = -1, float high = 1);
  static HostArray Filled(DType type, int64_t n, float value);

  // In the ops' memory: all ones, or a copy.
  void* Room(size_t bytes);
  void* Room(DType type, int64_t n) { return Room(n * SizeOf(type)); }
  float* Floats(int64_t n) { return static_cast<float*>(Room(DType::kF32, n)); }
  void* Put(const HostArray& array);
  float* PutFloats(const HostArray& array) { return static_cast<float*>(Put(array)); }
  template <typename T>
  T* PutValues(const std::vector<T>& values) {
    return static_cast<T*>(Copied(values.data(), values.size() * sizeof(T)));
  }
  // Makes the order, too, for ops on devices.
  EmbeddingTokens PutTokens(const std::vector<int32_t>& tokens, int64_t vocabulary);
  // Puts the mask's clock and the shape's first example into the ops' memory.
  OpDropout PutDropout(const DropoutMask& mask, const DropoutShape& shape);
  // Puts a bias, of values of type(), in the type that the ops take; null stays null.
  const void* PutBias(const HostArray* bias);

  HostArray Read(const void* from, DType type, int64_t n);
  void ReadBytes(const void* from, void* to, size_t bytes);

  // The array in the ops' memory has the wanted bits or, of an implementation that is only close,
  // everywhere |got - wanted| <= absolute + (relative + 2 roundings of its type) · |wanted|. NaNs
  // stand for NaNs.
  struct Bounds {
    double absolute = 0;
    double relative = 0;
  };
  void Expect(const void* got, const HostArray& wanted, const Bounds& bounds,
              const std::string& what);
  // Or ‖got - wanted‖ <= bound · ‖wanted‖ over the columns [begin, end) of rows of `stride`
  // elements, and NaNs stand for NaNs everywhere.
  struct Columns {
    int64_t stride = 1;
    int64_t begin = 0;
    int64_t end = 1;
  };
  void ExpectNormwise(const void* got, const HostArray& wanted, const Columns& columns,
                      double bound, const std::string& what);

 private:
  void* Copied(const void* data, size_t bytes);
  bool HasBits(const HostArray& got, const HostArray& wanted, const std::string& what);

  std::unique_ptr<OpsUnderTest> made_;
};

// The part of the contract that depends on how products with GELU in them are made.
class OpsGeluContractTest : public OpsContractTest {};

// Returns names for INSTANTIATE_TEST_SUITE_P.
inline auto AllTypesOf(const OpsImplementation& implementation) {
  return testing::Combine(testing::Values(implementation),
                          testing::Values(DType::kF32, DType::kBf16, DType::kF16));
}
std::string NameOfOpsTest(const testing::TestParamInfo<std::tuple<OpsImplementation, DType>>& info);

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_OPS_CONTRACT_H_
