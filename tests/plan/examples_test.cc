// Every job in examples/ is one that submit takes and that a plan can be made of, with the
// parameters that its model is known by.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "client/job/job_file.h"
#include "client/plan/job_plan.h"
#include "common/job/validation/job_validator.h"
#include "common/plan/size/data_size.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Dense parameters by file. GPT-2's are those of the models of 124M and 1558M that were published,
// llama_1b's are TinyLlama's.
const std::map<std::string, uint64_t>& Parameters() {
  static const auto* parameters = new std::map<std::string, uint64_t>{{"avazu", 119297},
                                                                      {"clicks", 6533},
                                                                      {"clicks_hybrid", 6533},
                                                                      {"criteo", 143118},
                                                                      {"digits", 203530},
                                                                      {"gpt2_124m", 124439808},
                                                                      {"gpt2_1558m", 1557611200},
                                                                      {"llama_1b", 1100048384},
                                                                      {"ratings", 577},
                                                                      {"shakespeare", 1099136},
                                                                      {"shakespeare_10m", 10818432},
                                                                      {"text", 43392},
                                                                      {"text_all_reduce", 43392}};
  return *parameters;
}

std::vector<std::string> DataPaths(const v1::DataSpec& data) {
  switch (data.reader_case()) {
    case v1::DataSpec::kText:
      return {data.text().path()};
    case v1::DataSpec::kSequences:
      return {data.sequences().path()};
    case v1::DataSpec::kCsv:
      return {data.csv().path()};
    case v1::DataSpec::kIdx:
      return {data.idx().images(), data.idx().labels()};
    default:
      return {};
  }
}

// Whoever starts an example without its data is sent to the comment at its top, which names another
// example or how to take other data.
bool SaysWhereItsDataIs(const std::filesystem::path& path, const v1::JobSpec& spec) {
  if (DataPaths(spec.data()).empty()) return true;
  std::ifstream file(path);
  std::string comment;
  for (std::string line; std::getline(file, line) && line[0] == '#';) comment += line;
  return comment.find("--data") != std::string::npos ||
         comment.find(".textproto") != std::string::npos;
}

TEST(ExamplesTest, EachIsTakenAndPlanned) {
  std::map<std::string, uint64_t> found;
  for (const auto& file : std::filesystem::directory_iterator("examples")) {
    SCOPED_TRACE(file.path().string());
    v1::JobSpec spec;
    ASSERT_EQ(ReadJobFile(file.path().string(), spec), absl::OkStatus());
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
    EXPECT_FALSE(spec.name().empty());
    // Workers run elsewhere. The data need not be here: a plan takes a job at its word.
    for (const std::string& path : DataPaths(spec.data())) {
      EXPECT_TRUE(std::filesystem::path(path).is_absolute()) << path;
    }
    EXPECT_TRUE(SaysWhereItsDataIs(file.path(), spec)) << "say it in the comment at its top";
    const auto plan = PlanJob(spec, SizeOfData(spec.data()), {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    found[file.path().stem().string()] = plan->model.dense();
    // At least parameters and gradients.
    EXPECT_GT(plan->memory.worker_bytes(), 8 * plan->model.dense());
  }
  EXPECT_EQ(found, Parameters());
}

}  // namespace
}  // namespace muster
