#include "common/kernels/device/device_cross_entropy.h"

#include <utility>
#include <vector>

#include "common/kernels/device/device_test_lib.h"

namespace muster {
namespace {

class DeviceCrossEntropyTest : public DeviceKernelTest {};

// Logits of the type of computation, with their gradient in their place, give what the same logits
// in f32 give; those are in the contract of Ops.
TEST_P(DeviceCrossEntropyTest, LogitsOfAnyType) {
  for (const auto& [vocabulary, tokens] : {std::pair{7, 7}, {264, 257}, {5056, 5003}}) {
    const int64_t rows = 5;
    const DeviceCrossEntropyShape shape = {
        .rows = rows, .vocabulary = vocabulary, .tokens = tokens};
    const std::vector<float> logits = RandomNumbers(type(), rows * vocabulary, 1, -8, 8);
    void* const same_type = Put(type(), logits);
    void* const apart = Room(type(), rows * vocabulary);
    float* const losses = Floats(2 * rows);
    auto* const correct = Room<int32_t>(2 * rows * sizeof(int32_t));
    DeviceCrossEntropyArrays arrays = {
        .logits_type = type(),
        .logits = same_type,
        .labels = Copied(std::vector<int32_t>{0, 3, -1, tokens - 1, 5}),
        .gradient_type = type(),
        .gradient = same_type,
        .gradient_scale = Copied(std::vector<float>{4}),
        .losses = losses,
        .correct = correct};
    DeviceCrossEntropy(stream(), shape, arrays);
    arrays.logits_type = DType::kF32;
    arrays.logits = Copied(logits);
    arrays.gradient = apart;
    arrays.losses += rows;
    arrays.correct += rows;
    DeviceCrossEntropy(stream(), shape, arrays);
    ExpectClose(Read(losses, rows), Read(arrays.losses, rows), 2e-6, 2e-6, "losses");
    EXPECT_EQ(Read(correct, rows), Read(arrays.correct, rows));
    ExpectClose(Get(type(), same_type, rows * vocabulary), Get(type(), apart, rows * vocabulary),
                1e-6, RoundingOf(type()) + 4e-6, "gradient");
  }
}

MUSTER_FOR_STORAGE_TYPES(DeviceCrossEntropyTest);

}  // namespace
}  // namespace muster
