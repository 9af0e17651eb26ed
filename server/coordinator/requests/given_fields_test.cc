#include "server/coordinator/requests/given_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(GivenFieldsTest, NamesWhatASpecificationHas) {
  EXPECT_THAT(GivenFields(v1::JobSpec()), testing::IsEmpty());
  v1::JobSpec spec;
  spec.set_name("a");
  (*spec.mutable_labels())["team"] = "x";
  (*spec.mutable_labels())["run"] = "y";
  spec.mutable_optimizer()->set_learning_rate(0.1);
  // Has no field of its own, but says that the job has servers.
  spec.mutable_update();
  spec.set_batch_size(8);
  EXPECT_THAT(GivenFields(spec),
              testing::UnorderedElementsAre("name", "labels", "optimizer.learning_rate", "update",
                                            "batch_size"));
}

}  // namespace
}  // namespace muster
