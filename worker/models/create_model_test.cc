#include "worker/models/create_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CreateModelTest, NoModel) {
  const auto model =
      CreateModel(v1::ModelSpec(), v1::ComputeSpec(), {.dense_features = 4, .classes = 2});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(),
              AllOf(HasSubstr("logistic_regression"), HasSubstr("deep_fm")));
}

TEST(CreateModelTest, EqualArgumentsGiveEqualDescriptions) {
  v1::ModelSpec spec;
  spec.mutable_mlp()->add_hidden(8);
  spec.mutable_mlp()->set_classes(3);
  const DatasetInfo data = {.dense_features = 4, .classes = 3};
  const auto a = CreateModel(spec, v1::ComputeSpec(), data);
  const auto b = CreateModel(spec, v1::ComputeSpec(), data);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ((*a)->description().tensors.size(), (*b)->description().tensors.size());
  for (size_t t = 0; t < (*a)->description().tensors.size(); ++t) {
    EXPECT_EQ((*a)->description().tensors[t].name, (*b)->description().tensors[t].name);
    EXPECT_EQ((*a)->description().tensors[t].shape, (*b)->description().tensors[t].shape);
  }
}

TEST(CreateModelTest, OnlyTransformersComputeOtherwise) {
  v1::ModelSpec spec;
  spec.mutable_mlp()->set_classes(3);
  const DatasetInfo data = {.dense_features = 4, .classes = 3};
  v1::ComputeSpec compute;
  compute.set_type(v1::ComputeSpec::BF16);
  EXPECT_THAT(CreateModel(spec, compute, data).status().message(),
              HasSubstr("compute.type is BF16"));
  compute.set_type(v1::ComputeSpec::F32);
  compute.set_recompute(v1::ComputeSpec::FULL);
  EXPECT_THAT(CreateModel(spec, compute, data).status().message(),
              HasSubstr("compute.recompute is FULL"));
  compute.set_recompute(v1::ComputeSpec::NONE);
  EXPECT_TRUE(CreateModel(spec, compute, data).ok());
}

TEST(RequiredContextTest, OfModelsThatReadText) {
  v1::ModelSpec spec;
  EXPECT_EQ(RequiredContext(spec), 0);
  spec.mutable_mlp()->set_classes(3);
  EXPECT_EQ(RequiredContext(spec), 0);
  spec.mutable_ngram()->set_orders(5);
  EXPECT_EQ(RequiredContext(spec), 5);
  spec.mutable_ngram()->set_orders(1000000000);
  EXPECT_EQ(RequiredContext(spec), 0);
  spec.mutable_transformer()->set_context(256);
  EXPECT_EQ(RequiredContext(spec), 256);
}

}  // namespace
}  // namespace muster
