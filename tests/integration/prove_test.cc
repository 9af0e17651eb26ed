// `muster prove`: every job in examples/ makes the step of one process, and a mistake is found.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/prove/prove_job.h"
#include "common/base/philox.h"
#include "common/files/temp_folder.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string PathOf(const std::string& name) { return absl::StrCat(testing::TempDir(), "/", name); }

// Text of which no two windows are alike.
std::string WriteText() {
  const std::string path = PathOf("text.txt");
  const Philox random(1, "text", "");
  std::ofstream file(path);
  for (uint64_t i = 0; i < 40'000; ++i) {
    file << static_cast<char>(i % 7 == 6 ? ' ' : 'a' + random.Uint64(i) % 26);
  }
  return path;
}

std::string WriteRatings() {
  const std::string path = PathOf("ratings.csv");
  const Philox random(2, "ratings", "");
  std::ofstream file(path);
  file << "userId,movieId,rating,timestamp\n";
  for (uint64_t i = 0; i < 1'000; ++i) {
    file << random.Uint64(3 * i) % 50 << "," << random.Uint64(3 * i + 1) % 80 << ","
         << random.Uint64(3 * i + 2) % 5 + 1 << ",0\n";
  }
  return path;
}

// A number of IDX files, most significant byte first.
std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string WriteDigits() {
  constexpr uint32_t kImages = 200;
  const Philox random(3, "digits", "");
  const std::string path = PathOf("t10k-images-idx3-ubyte");
  std::ofstream images(path), labels(PathOf("t10k-labels-idx1-ubyte"));
  images << BigEndian(0x803) << BigEndian(kImages) << BigEndian(28) << BigEndian(28);
  labels << BigEndian(0x801) << BigEndian(kImages);
  for (uint64_t i = 0; i < kImages; ++i) {
    labels << static_cast<char>(i % 10);
    for (uint64_t p = 0; p < 28 * 28; ++p) {
      images << static_cast<char>(random.Uint64(i * 28 * 28 + p) % 256);
    }
  }
  return path;
}

// Lines of a label, 13 numbers and 26 categories, some of them missing.
std::string WriteCriteo() {
  const std::string path = PathOf("criteo.txt");
  const Philox random(4, "criteo", "");
  std::ofstream file(path);
  for (uint64_t i = 0; i < 300; ++i) {
    file << random.Uint64(100 * i) % 2;
    for (uint64_t column = 1; column < 40; ++column) {
      const uint64_t value = random.Uint64(100 * i + column);
      file << "\t";
      if (value % 5 == 0) continue;
      if (column <= 13) {
        file << value % 100;
      } else {
        file << "c" << value % 20;
      }
    }
    file << "\n";
  }
  return path;
}

std::string WriteAvazu() {
  const std::string path = PathOf("avazu.csv");
  const Philox random(5, "avazu", "");
  std::ofstream file(path);
  file << "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,"
          "app_category,device_id,device_ip,device_model,device_type,device_conn_type,C14,C15,C16,"
          "C17,C18,C19,C20,C21\n";
  for (uint64_t i = 0; i < 300; ++i) {
    file << i << "," << random.Uint64(100 * i) % 2 << ",14102100";
    for (uint64_t column = 3; column < 24; ++column) {
      file << ",v" << random.Uint64(100 * i + column) % 20;
    }
    file << "\n";
  }
  return path;
}

struct Example {
  // The arguments of prove beside the file. The models of gpt2 and llama are larger than a test may
  // compute.
  std::string arguments;
  // Writes its data.
  std::function<std::string()> data = nullptr;
};

const std::map<std::string, Example>& Examples() {
  static const auto* examples = new std::map<std::string, Example>{
      {"avazu", {"--set batch_size=64", WriteAvazu}},
      {"clicks", {""}},
      {"clicks_hybrid", {""}},
      {"criteo", {"--set batch_size=64", WriteCriteo}},
      {"digits", {"", WriteDigits}},
      {"gpt2_124m", {"--small --set workers=4", WriteText}},
      {"gpt2_1558m", {"--small --set workers=2", WriteText}},
      {"llama_1b", {"--small --set workers=4", WriteText}},
      {"ratings", {"", WriteRatings}},
      {"shakespeare", {"", WriteText}},
      {"shakespeare_10m", {"--small --set workers=2", WriteText}},
      {"text", {"", WriteText}},
      {"text_all_reduce", {"", WriteText}}};
  return *examples;
}

class ProveExampleTest : public testing::TestWithParam<std::pair<const std::string, Example>> {};

TEST_P(ProveExampleTest, MakesTheStepOfOneProcess) {
  const auto& [name, example] = GetParam();
  std::string command = absl::StrCat("prove examples/", name, ".textproto ", example.arguments);
  if (example.data != nullptr) absl::StrAppend(&command, " --data ", example.data());
  const CommandResult result = Muster(command);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("The mesh makes the step of one process"));
}

INSTANTIATE_TEST_SUITE_P(Examples, ProveExampleTest, testing::ValuesIn(Examples()),
                         [](const auto& info) { return info.param.first; });

TEST(ProveTest, EveryExampleIsProved) {
  std::set<std::string> there, proved;
  for (const auto& file : std::filesystem::directory_iterator("examples")) {
    there.insert(file.path().stem().string());
  }
  for (const auto& example : Examples()) proved.insert(example.first);
  EXPECT_EQ(there, proved) << "say above how the new one is proved";
}

v1::JobSpec Transformer() {
  v1::JobSpec spec = ParseJobOrDie(absl::StrCat(
      R"pb(name: "j"
           model {
             transformer {
               layers: 2
               width: 32
               heads: 2
               context: 16
               norm: RMS_NORM
               positions: ROTARY
               activation: SWIGLU
               no_biases: true
             }
           }
           data { sequences { path: ")pb",
      WriteText(), R"pb(" } holdout: 0.1 }
                        optimizer { name: "adamw" learning_rate: 0.001 }
                        clipping { by_global_norm: 0.1 }
                        update { dense: ALL_REDUCE sparse: ALL_REDUCE }
                        parallelism { tensor: 2 }
                        workers: 2
                        batch_size: 4
                        stop { steps: 10 }
                        seed: 1)pb"));
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  FillDefaults(spec);
  return spec;
}

// The planted mistakes change what the mesh computes, each in other tensors.
TEST(ProveTest, AMistakeIsFoundInTheFirstTensorThatHasIt) {
  const auto prove = [](const std::function<void(v1::TransformerSpec&)>& mistake) {
    ProofOptions options;
    options.change_mesh = [&mistake](v1::JobSpec& spec) {
      mistake(*spec.mutable_model()->mutable_transformer());
    };
    auto proof = ProveJob(Transformer(), options);
    EXPECT_TRUE(proof.ok()) << proof.status();
    return *std::move(proof);
  };
  const Proof right = prove([](v1::TransformerSpec&) {});
  EXPECT_TRUE(right.holds());
  ASSERT_EQ(right.steps.size(), 2u);
  EXPECT_EQ(right.steps[0].first_wrong(), nullptr);
  EXPECT_NEAR(right.steps[0].norm, right.steps[1].norm, 1e-6);
  // The clipped gradient is as long as the job allows.
  EXPECT_GT(right.steps[0].norm, 0.1);
  EXPECT_LT(right.steps[1].tensors[0].largest, right.steps[0].tensors[0].largest);

  const Proof wrong = prove([](v1::TransformerSpec& model) { model.set_norm_epsilon(1e-3f); });
  EXPECT_FALSE(wrong.holds());
  ASSERT_NE(wrong.steps[0].first_wrong(), nullptr);
  EXPECT_EQ(wrong.steps[0].first_wrong()->tensor, "embedding.weight");
  const Proof other = prove([](v1::TransformerSpec& model) { model.set_rotary_base(100); });
  EXPECT_FALSE(other.holds());
}

// One rank's gradient of one element is wrong, as a kernel with a fault leaves it, before ranks add
// theirs up. The run by one process adds up nothing.
TEST(ProveTest, AWrongGradientOfOneRankIsFoundInItsTensor) {
  v1::JobSpec spec = Transformer();
  spec.mutable_parallelism()->clear_tensor();
  const TempFolder orders;
  setenv("MUSTER_DEATHS", orders.path().c_str(), /*overwrite=*/1);
  ProofOptions options;
  options.worker_flags = {absl::StrCat(
      "--task-program=", std::filesystem::absolute("tests/recovery/muster-dying-task").string())};
  const auto right = ProveJob(spec, options);
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_TRUE(right->holds());
  orders.Write("slot 1", "spoil before bucket 0");
  const auto wrong = ProveJob(spec, options);
  unsetenv("MUSTER_DEATHS");
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_FALSE(wrong->holds());
  ASSERT_NE(wrong->steps[0].first_wrong(), nullptr);
  // The mean over 64 tokens.
  EXPECT_NEAR(wrong->steps[0].first_wrong()->difference, 1.0 / 64, 1e-5);
  EXPECT_EQ(wrong->steps[0].first_wrong()->tensor, "embedding.weight");
}

TEST(ProveTest, SaysInJsonWhatDiffers) {
  const std::string path = PathOf("j.textproto");
  std::ofstream(path) << Transformer().DebugString();
  const CommandResult result = Muster(absl::StrCat("prove ", path, " --output json"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto json = nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json["holds"], true);
  ASSERT_EQ(json["steps"].size(), 2u);
  EXPECT_EQ(json["steps"][1]["of"], "clipped step");
  EXPECT_EQ(json["steps"][0]["tensors"][0]["tensor"], "embedding.weight");
}

TEST(ProveTest, WhatCannotBeProvedIsRefusedBeforeAClusterStarts) {
  const std::string path = PathOf("j.textproto");
  v1::JobSpec spec = Transformer();
  spec.mutable_stop()->Clear();
  spec.mutable_stop()->set_evaluate_only(true);
  spec.clear_parallelism();
  spec.set_workers(1);
  std::ofstream(path) << spec.DebugString();
  const CommandResult result = Muster("prove " + path);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("stop.steps"));
}

}  // namespace
}  // namespace muster
