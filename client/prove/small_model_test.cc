#include "client/prove/small_model.h"

#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::JobSpec Job(const std::string& model, const std::string& changes) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'j' data { sequences { path: 't.txt' } } "
      "optimizer { name: 'adamw' learning_rate: 0.001 } "
      "update { dense: ALL_REDUCE sparse: ALL_REDUCE } stop { steps: 9 } "
      "model { transformer { " +
          model + " } } " + changes,
      &spec))
      << model << changes;
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << model << changes;
  FillDefaults(spec);
  return spec;
}

constexpr char kLarge[] =
    "layers: 32 width: 4096 heads: 32 kv_heads: 8 context: 8192 vocabulary: 128256 norm: RMS_NORM "
    "positions: ROTARY activation: SWIGLU no_biases: true feed_forward: 14336 ";

// Whatever the mesh, the small job is a valid one of the same mesh.
TEST(SmallModelTest, TheMeshStays) {
  for (const char* changes :
       {"workers: 8 batch_size: 512", "workers: 8 batch_size: 512 micro_batches: 16",
        "workers: 16 batch_size: 64 parallelism { tensor: 8 }",
        "workers: 16 batch_size: 64 parallelism { tensor: 2 context: 4 context_exchange: HEADS }",
        "workers: 8 batch_size: 64 parallelism { context: 4 zero { stage: 3 } }",
        "workers: 8 batch_size: 512 micro_batches: 16 "
        "parallelism { pipeline: 4 pipeline_schedule: INTERLEAVED pipeline_chunks: 3 }",
        "workers: 8 batch_size: 64 parallelism { pipeline: 2 pipeline_layers: [ 30, 4 ] }"}) {
    v1::JobSpec spec = Job(kLarge, changes);
    const v1::JobSpec large = spec;
    const auto note = MakeSmall(spec);
    ASSERT_TRUE(note.ok()) << note.status();
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << changes;
    EXPECT_THAT(*note, HasSubstr("the model is small"));
    EXPECT_EQ(spec.workers(), large.workers());
    EXPECT_EQ(spec.parallelism().data(), large.parallelism().data());
    EXPECT_EQ(spec.parallelism().zero().stage(), large.parallelism().zero().stage());
    const v1::TransformerSpec& model = spec.model().transformer();
    EXPECT_LE(model.layers(), 12u) << changes;
    EXPECT_LE(model.width(), 16u * 16u) << changes;
    EXPECT_EQ(model.vocabulary(), 128256u) << "the data's";
    EXPECT_LE(spec.batch_size(), 8u * 12u);
  }
}

TEST(SmallModelTest, KindsOfLayersStay) {
  v1::JobSpec spec = Job(
      std::string(kLarge) +
          "sliding_window: 4096 whole_layers: [ 1, 30 ] query_key_norm: PER_HEAD head_width: 128 "
          "moe { experts: 64 top_k: 6 expert_width: 1408 shared_width: 2816 dense_layers: 0 }",
      "workers: 4 batch_size: 64 parallelism { expert: 4 }");
  ASSERT_TRUE(MakeSmall(spec).ok());
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  const v1::TransformerSpec& model = spec.model().transformer();
  EXPECT_THAT(model.whole_layers(), ElementsAre(1));
  EXPECT_EQ(model.sliding_window(), model.context() / 2);
  EXPECT_EQ(model.query_key_norm(), v1::TransformerSpec::PER_HEAD);
  EXPECT_EQ(model.heads(), 2 * model.kv_heads());
  EXPECT_EQ(model.moe().top_k(), 6u);
  EXPECT_EQ(model.moe().experts(), 12u);
  EXPECT_GT(model.moe().shared_width(), 0u);
  EXPECT_THAT(model.moe().dense_layers(), ElementsAre(0));
}

TEST(SmallModelTest, ASmallModelStaysAsItIs) {
  v1::JobSpec spec = Job("layers: 1 width: 16 heads: 1 context: 8", "batch_size: 1");
  ASSERT_TRUE(MakeSmall(spec).ok());
  EXPECT_EQ(spec.model().transformer().layers(), 1u);
  EXPECT_EQ(spec.model().transformer().context(), 8u);
  EXPECT_EQ(spec.batch_size(), 1u);
}

TEST(SmallModelTest, OtherModelsAreRefused) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_mlp();
  EXPECT_THAT(std::string(MakeSmall(spec).status().message()), HasSubstr("--set"));
}

}  // namespace
}  // namespace muster
