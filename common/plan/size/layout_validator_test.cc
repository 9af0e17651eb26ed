#include "common/plan/size/layout_validator.h"

#include <string>

#include "common/plan/size/data_size.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Of a model with 1,026 parameters for each of its hidden units, and 2 more; empty: it is taken.
std::string Refused(uint32_t hidden, const std::string& update) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "data { synthetic_classification { examples: 100 features: 1023 classes: 2 } } " + update,
      &spec));
  spec.mutable_model()->mutable_mlp()->add_hidden(hidden);
  spec.mutable_model()->mutable_mlp()->set_classes(2);
  const absl::Status status = ValidateLayout(spec, SizeOfModel(spec, SizeOfData(spec.data())));
  if (!status.ok()) EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(LayoutValidatorTest, BoundsBlocks) {
  EXPECT_EQ(Refused(1000, ""), "");
  EXPECT_EQ(Refused(1000, "update { block_bytes: 4 }"), "");
  EXPECT_THAT(Refused(1024, "update { block_bytes: 4 }"),
              AllOf(HasSubstr("update.block_bytes is 4"), HasSubstr("at most 1048576")));
}

TEST(LayoutValidatorTest, BoundsBuckets) {
  EXPECT_EQ(Refused(1000, "update { dense: ALL_REDUCE bucket_bytes: 4 }"), "");
  EXPECT_THAT(Refused(1024, "update { dense: ALL_REDUCE bucket_bytes: 4 }"),
              AllOf(HasSubstr("update.bucket_bytes is 4"), HasSubstr("at most 1048576")));
  EXPECT_EQ(Refused(1024, "update { dense: ALL_REDUCE bucket_bytes: 8 }"), "");
}

TEST(LayoutValidatorTest, BoundsParameters) {
  EXPECT_THAT(Refused(1u << 31, "update { block_bytes: 33554432 }"), HasSubstr("at most 2^40"));
}

TEST(LayoutValidatorTest, BoundsMatricesOnServers) {
  // A matrix has 8,192 rows of 1,023 columns, 33.5 million bytes.
  EXPECT_EQ(Refused(8192, "optimizer { name: 'muon' }"), "");
  EXPECT_THAT(Refused(8300, "optimizer { name: 'muon' }"),
              AllOf(HasSubstr("tensor hidden0.weight has a matrix of 8300 rows"),
                    HasSubstr("take update.dense ALL_REDUCE, or adamw")));
  EXPECT_EQ(Refused(8300, "optimizer { name: 'muon' } update { dense: ALL_REDUCE }"), "");
  EXPECT_EQ(Refused(8300, "optimizer { name: 'adamw' }"), "");
}

TEST(LayoutValidatorTest, BoundsWhatServersHoldOfTheRanks) {
  EXPECT_EQ(Refused(1024, "parallelism { tensor: 1024 }"), "");
  EXPECT_THAT(Refused(2048, "parallelism { tensor: 2048 }"),
              AllOf(HasSubstr("2048 tensor ranks and 1 pipeline stages"),
                    HasSubstr("1 to 1024 ranks"), HasSubstr("lower parallelism.tensor")));
  EXPECT_THAT(Refused(1024, "parallelism { tensor: 1024 pipeline: 2 }"),
              HasSubstr("make 2048 shares of each of 4 tensors"));
  EXPECT_EQ(Refused(2048, "parallelism { tensor: 2048 } update { dense: ALL_REDUCE }"), "");
  // 1,048,061 blocks of two elements; of 681 ranks each has three units, whose 3 · 1,023 weights
  // are 1,535 blocks, not 1,534.5.
  EXPECT_EQ(Refused(2043, "update { block_bytes: 8 }"), "");
  EXPECT_THAT(Refused(2043, "update { block_bytes: 8 } parallelism { tensor: 681 }"),
              HasSubstr("update.block_bytes is 8"));
}

TEST(LayoutValidatorTest, TensorRanksDivideWhatTheJobLeavesOut) {
  const auto refused = [](const std::string& more) {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "model { transformer { layers: 1 width: 384 heads: 6 context: 8 activation: SWIGLU " + more,
        &spec));
    const absl::Status status = ValidateLayout(spec, SizeOfModel(spec, SizeOfData(spec.data())));
    return std::string(status.message());
  };
  const std::string data = "} } data { sequences { path: 't' } } parallelism { ";
  EXPECT_EQ(refused(data + "tensor: 2 }"), "");
  // 1,024 columns.
  EXPECT_THAT(refused("vocabulary: 258 " + data + "tensor: 3 }"),
              AllOf(HasSubstr("parallelism.tensor is 3; but tensor block0.up.weight"),
                    HasSubstr("feed_forward")));
  EXPECT_THAT(refused("feed_forward: 1026 " + data + "tensor: 3 }"),
              AllOf(HasSubstr("tensor embedding.weight"), HasSubstr("pad_vocabulary_to")));
}

}  // namespace
}  // namespace muster
