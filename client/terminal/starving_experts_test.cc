#include "client/terminal/starving_experts.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Blocks from `first` on, whose four experts got these tokens.
v1::JobStatus Job(const std::vector<std::vector<uint64_t>>& tokens, uint32_t first = 0) {
  v1::JobStatus job;
  v1::ExpertLoads& loads = *job.mutable_expert_loads();
  loads.set_experts(4);
  for (const std::vector<uint64_t>& block : tokens) {
    loads.add_blocks(first++);
    loads.mutable_tokens()->Add(block.begin(), block.end());
  }
  return job;
}

TEST(StarvingExpertsTest, NobodyStarvesWhereLoadsAreEvenOrTokensFew) {
  EXPECT_THAT(StarvingExperts(v1::JobStatus()), IsEmpty());
  EXPECT_THAT(StarvingExperts(Job({{100, 1300, 1300, 1300}})), IsEmpty()) << "a tenth";
  EXPECT_THAT(StarvingExperts(Job({{0, 130, 130, 130}})), IsEmpty()) << "may be chance";
  EXPECT_THAT(StarvingExperts(Job({{0, 0, 0, 0}})), IsEmpty());
  v1::JobStatus malformed = Job({{0, 4000, 0, 0}});
  malformed.mutable_expert_loads()->add_blocks(7);
  EXPECT_THAT(StarvingExperts(malformed), IsEmpty());
}

TEST(StarvingExpertsTest, NamesTheOneWithTheLeastAndWhatToDo) {
  v1::JobStatus job = Job({{900, 1100, 1000, 1000}, {1500, 1000, 1470, 30}}, 5);
  EXPECT_THAT(StarvingExperts(job),
              ElementsAre("expert 3 of block 6 starves (3.0 % of the mean)",
                          "set moe.auxiliary_loss, or set moe.selection_bias"));
  v1::MoeSpec& moe = *job.mutable_spec()->mutable_model()->mutable_transformer()->mutable_moe();
  moe.set_auxiliary_loss(0.01f);
  EXPECT_EQ(StarvingExperts(job)[1], "raise moe.auxiliary_loss, or set moe.selection_bias");
  job.mutable_spec()->mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  EXPECT_EQ(StarvingExperts(job)[1], "raise moe.auxiliary_loss") << "devices have no biases";
  moe.set_selection_bias(true);
  EXPECT_EQ(StarvingExperts(job)[1], "raise moe.bias_rate");
}

TEST(StarvingExpertsTest, ManyAreCounted) {
  const v1::JobStatus job = Job({{4000, 0, 0, 0}, {3999, 1, 0, 0}});
  EXPECT_EQ(StarvingExperts(job)[0], "expert 1 of block 0 starves (0.0 % of the mean), and 5 more");
}

// In a large model, too: `muster status` has 80 columns, 13 of which name the field.
TEST(StarvingExpertsTest, LinesAreShort) {
  v1::JobStatus job;
  v1::ExpertLoads& loads = *job.mutable_expert_loads();
  loads.set_experts(256);
  for (uint32_t block = 0; block < 64; ++block) {
    loads.add_blocks(block);
    for (uint32_t e = 0; e < 256; ++e) {
      loads.add_tokens(e == 0 ? 10'000'000 : block == 63 && e == 255 ? 0 : 1);
    }
  }
  const std::vector<std::string> lines = StarvingExperts(job);
  EXPECT_EQ(lines[0], "expert 255 of block 63 starves (0.0 % of the mean), and 16,319 more");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 67) << line;
}

}  // namespace
}  // namespace muster
