#include "client/job/job_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kTextproto[] = "# {\nname: \"{\" workers: 2 update { staleness_bound: 4 }";
constexpr char kYaml[] = "# a {\nname: '{'\nworkers: 2\nupdate: {staleness_bound: 4}\n";
constexpr char kJson[] = " {\"name\": \"{\", \"workers\": 2, \"update\": {\"stalenessBound\": 4}}";

TEST(JobFileTest, TheNotationIsToldByTheNameOrElseByTheText) {
  v1::JobSpec expected;
  expected.set_name("{");
  expected.set_workers(2);
  expected.mutable_update()->set_staleness_bound(4);
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"a.textproto", kTextproto},
           {"a.yaml", kYaml},
           {"a.YML", kYaml},
           {"a.json", kJson},
           {"a.yaml", kJson},
           {"a", kTextproto},
           {"a.txt", kYaml},
           {"standard input", kJson},
           {"a", "name: \"{\"\nworkers: 2\nupdate {\n staleness_bound: 4\n}"},
           {"a", "---\nname: \"{\"\nworkers: 2\nupdate:\n  staleness_bound: 4\n"}}) {
    v1::JobSpec spec;
    const absl::Status status = ParseJob(text, name, spec);
    ASSERT_TRUE(status.ok()) << name << status;
    EXPECT_EQ(spec.SerializeAsString(), expected.SerializeAsString()) << name;
  }
}

TEST(JobFileTest, BracesWithinAValueOfYamlBeginNoGroup) {
  v1::JobSpec spec;
  const std::string yaml = "data:\n  csv:\n    path: data/part{1,2}.csv\n    label: y{\n";
  ASSERT_EQ(ParseJob(yaml, "standard input", spec), absl::OkStatus());
  EXPECT_EQ(spec.data().csv().path(), "data/part{1,2}.csv");
  ASSERT_EQ(ParseJob("data { csv{ path: \"a\" } holdout: 0.5 } stop{ steps: 3 }", "job", spec),
            absl::OkStatus());
  EXPECT_EQ(spec.stop().steps(), 3);
}

TEST(JobFileTest, AByteOrderMarkIsSkippedAndUtf16Refused) {
  const std::string mark = "\xef\xbb\xbf";
  v1::JobSpec spec;
  for (const char* text : {kTextproto, kYaml, kJson}) {
    const absl::Status status = ParseJob(mark + text, "job", spec);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(spec.workers(), 2);
  }
  EXPECT_THAT(std::string(ParseJob(mark + "\nwokers: 1", "a.yaml", spec).message()),
              HasSubstr("a.yaml:2:1: "));
  EXPECT_THAT(std::string(ParseJob(mark, "a.yaml", spec).message()), HasSubstr("is empty"));
  for (const std::string& text : {std::string("\xff\xfew\0", 4), std::string("\0w\0o", 4)}) {
    EXPECT_THAT(std::string(ParseJob(text, "a.yaml", spec).message()),
                HasSubstr("a.yaml is UTF-16"));
  }
}

TEST(JobFileTest, WhatIsNoJobFileIsRefused) {
  const std::string folder = ::testing::TempDir();
  v1::JobSpec spec;
  EXPECT_THAT(std::string(ReadJobFile(folder, spec).message()), HasSubstr("is a folder"));
  std::ofstream(folder + "/large.yaml") << std::string(5 << 20, '\n');
  EXPECT_THAT(std::string(ReadJobFile(folder + "/large.yaml", spec).message()),
              HasSubstr("large.yaml has more than 4 MiB"));
}

TEST(JobFileTest, ErrorsNameOriginAndPlace) {
  v1::JobSpec spec;
  const absl::Status status = ParseJob("workers: 2\nwokers: 3\n", "job.textproto", spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("job.textproto:2:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("wokers"));
  EXPECT_THAT(std::string(ParseJob("{\"wokers\": 1}", "job.json", spec).message()),
              HasSubstr("wokers"));
  EXPECT_THAT(std::string(ParseJob("  \n", "job.json", spec).message()), HasSubstr("empty"));
}

TEST(JobFileTest, RelativePathsStartAtTheFile) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "jobs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "job.textproto") << "data { text { path: \"../corpus\" } }";
  v1::JobSpec spec;
  ASSERT_TRUE(ReadJobFile((folder / "job.textproto").string(), spec).ok());
  EXPECT_EQ(spec.data().text().path(),
            (folder.parent_path() / "corpus").lexically_normal().string());
  const absl::Status none = ReadJobFile((folder / "none").string(), spec);
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("No such file"));
}

TEST(JobFileTest, ATokenizersPathStartsAtTheFileAsWell) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "jobs";
  std::filesystem::create_directories(folder);
  for (const auto& [name, expected] : std::vector<std::pair<std::string, std::string>>{
           {"tokenizer.json", (folder / "tokenizer.json").string()},
           {"bytes", "bytes"},
           {"", ""}}) {
    std::ofstream(folder / "job.textproto")
        << "data { sequences { path: \"t\" tokenizer: \"" << name << "\" } }";
    v1::JobSpec spec;
    ASSERT_TRUE(ReadJobFile((folder / "job.textproto").string(), spec).ok());
    EXPECT_EQ(spec.data().sequences().path(), (folder / "t").string());
    EXPECT_EQ(spec.data().sequences().tokenizer(), expected);
  }
}

TEST(JobFileTest, PathsOfAMixtureStartAtTheFileAndOtherDataStandForAllOfIt) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "jobs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mixed.yaml") << R"(
data:
  mixture:
    sources:
      - {name: web, weight: 3, sequences: {path: w.txt, tokenizer: t.json}}
      - {name: code, weight: 1, sequences: {path: /c.txt}}
    changes:
      - {step: 5, weights: {web: 0.5}}
  holdout: 0.25
)";
  v1::JobSpec spec;
  ASSERT_TRUE(ReadJobFile((folder / "mixed.yaml").string(), spec).ok());
  const v1::MixtureData& mixture = spec.data().mixture();
  ASSERT_EQ(mixture.sources_size(), 2);
  EXPECT_EQ(mixture.sources(0).sequences().path(), (folder / "w.txt").string());
  EXPECT_EQ(mixture.sources(0).sequences().tokenizer(), (folder / "t.json").string());
  EXPECT_EQ(mixture.sources(1).sequences().path(), "/c.txt");
  EXPECT_EQ(mixture.changes(0).weights().at("web"), 0.5);
  EXPECT_EQ(MissingData(spec).size(), 2);
  ASSERT_TRUE(SetJobField("data.mixture.changes[0].weights.code=2", spec).ok());
  EXPECT_EQ(spec.data().mixture().changes(0).weights().at("code"), 2);

  ASSERT_TRUE(ReplaceDataPath("/other.txt", spec).ok());
  EXPECT_EQ(spec.data().sequences().path(), "/other.txt");
  EXPECT_EQ(spec.data().sequences().tokenizer(), (folder / "t.json").string());
  EXPECT_EQ(spec.data().holdout(), 0.25);
}

TEST(JobFileTest, PathsOfAFileStartThereAndThoseOfACommandLineHere) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "jobs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "job.yaml")
      << "data: {text: {path: a}}\nvalidation: {sequences: {path: b, tokenizer: c}}\n"
         "model: {transformer: {from: config.json}}\ninitial_weights: ./w\n";
  v1::JobSpec spec;
  ASSERT_TRUE(ReadJobFile((folder / "job.yaml").string(), spec).ok());
  EXPECT_EQ(spec.data().text().path(), (folder / "a").string());
  EXPECT_EQ(spec.validation().sequences().path(), (folder / "b").string());
  EXPECT_EQ(spec.validation().sequences().tokenizer(), (folder / "c").string());
  EXPECT_EQ(spec.model().transformer().from(), (folder / "config.json").string());
  EXPECT_EQ(spec.initial_weights(), (folder / "w").string());
  const std::filesystem::path here = std::filesystem::current_path();
  for (const char* assignment : {"data.text.path=d", "validation.sequences.tokenizer=bytes",
                                 "initial_weights=job-1", "workers=3"}) {
    ASSERT_TRUE(SetJobField(assignment, spec).ok()) << assignment;
  }
  EXPECT_EQ(spec.data().text().path(), (here / "d").string());
  EXPECT_EQ(spec.validation().sequences().path(), (folder / "b").string());
  EXPECT_EQ(spec.validation().sequences().tokenizer(), "bytes");
  EXPECT_EQ(spec.initial_weights(), "job-1");
  EXPECT_EQ(spec.workers(), 3);
  EXPECT_EQ(SetJobField("lr=0.5", spec).value(), "optimizer.learning_rate=0.5");
  EXPECT_EQ(spec.optimizer().learning_rate(), 0.5f);
  EXPECT_EQ(SetJobField("wokers=3", spec).status().message(),
            "--set wokers=3: a job has no field \"wokers\"; did you mean \"workers\"?");
}

TEST(JobFileTest, AProgramsWorkingFolderStartsAtTheFileAsWell) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "jobs";
  std::filesystem::create_directories(folder);
  for (const auto& [written, expected] : std::vector<std::pair<std::string, std::string>>{
           {".", folder.string()},
           {"../code", (folder.parent_path() / "code").lexically_normal().string()},
           {"/srv/code", "/srv/code"}}) {
    std::ofstream(folder / "job.yaml")
        << "model: {program: {command: [./a], working_folder: " << written << "}}\n";
    v1::JobSpec spec;
    ASSERT_TRUE(ReadJobFile((folder / "job.yaml").string(), spec).ok());
    // A folder may end in a slash.
    EXPECT_EQ(
        std::filesystem::path(spec.model().program().working_folder() + "/").lexically_normal(),
        std::filesystem::path(expected + "/").lexically_normal());
  }
  std::ofstream(folder / "job.yaml") << "model: {program: {command: [./a]}}\n";
  v1::JobSpec spec;
  ASSERT_TRUE(ReadJobFile((folder / "job.yaml").string(), spec).ok());
  EXPECT_EQ(spec.model().program().working_folder(), "");
  ASSERT_TRUE(SetJobField("working_folder=here", spec).ok());
  EXPECT_EQ(spec.model().program().working_folder(),
            (std::filesystem::current_path() / "here").string());
}

TEST(JobFileTest, AConfigFillsInWhatTheJobLeavesOut) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/config.json")
      << "\xef\xbb\xbf{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, "
         "\"vocab_size\": 50257, \"n_positions\": 1024, \"resid_pdrop\": 0.1}";
  std::ofstream(folder + "/job.yaml")
      << "model: {transformer: {from: config.json, layers: 2, context: 64}}";
  v1::JobSpec spec;
  ASSERT_TRUE(ReadJobFile(folder + "/job.yaml", spec).ok());
  const absl::StatusOr<std::string> read = ReadModelConfig(spec);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, "");
  const v1::TransformerSpec& transformer = spec.model().transformer();
  EXPECT_EQ(transformer.from(), "");
  EXPECT_EQ(transformer.layers(), 2);
  EXPECT_EQ(transformer.context(), 64);
  EXPECT_EQ(transformer.width(), 768);
  EXPECT_EQ(transformer.vocabulary(), 50257);
  EXPECT_EQ(transformer.dropout(), 0.1f);
  ASSERT_TRUE(SetJobField("model.transformer.from=/none/config.json", spec).ok());
  EXPECT_EQ(ReadModelConfig(spec).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(folder + "/config.json") << "{\"model_type\": \"bert\"}";
  ASSERT_TRUE(ReadJobFile(folder + "/job.yaml", spec).ok());
  EXPECT_THAT(std::string(ReadModelConfig(spec).status().message()),
              HasSubstr("model_type is \"bert\""));
}

TEST(JobFileTest, OfAConfigsExpertsTheJobsOwnFieldsWin) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/config.json")
      << R"({"model_type": "qwen2_moe", "num_hidden_layers": 4, "hidden_size": 64,
             "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
             "vocab_size": 500, "max_position_embeddings": 256, "qkv_bias": false,
             "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
             "shared_expert_intermediate_size": 48, "mlp_only_layers": [0, 3],
             "router_aux_loss_coef": 0.01})";
  const auto read = [&folder](const std::string& moe, v1::JobSpec& spec) {
    std::ofstream(folder + "/job.yaml")
        << "model: {transformer: {from: config.json, moe: {" << moe << "}}}";
    EXPECT_TRUE(ReadJobFile(folder + "/job.yaml", spec).ok());
    const absl::StatusOr<std::string> note = ReadModelConfig(spec);
    EXPECT_TRUE(note.ok()) << note.status();
    return note.value_or("");
  };
  v1::JobSpec plain;
  EXPECT_THAT(read("top_k: 4", plain), HasSubstr("moe.auxiliary_loss is 0.01: the file's "));
  const v1::MoeSpec& moe = plain.model().transformer().moe();
  EXPECT_EQ(moe.top_k(), 4u);
  EXPECT_EQ(moe.experts(), 8u);
  EXPECT_THAT(moe.dense_layers(), ::testing::ElementsAre(0, 3));
  v1::JobSpec own;
  EXPECT_EQ(read("dense_layers: [1], auxiliary_loss: 0.5", own), "");
  EXPECT_EQ(own.model().transformer().moe().auxiliary_loss(), 0.5f);
  EXPECT_THAT(own.model().transformer().moe().dense_layers(), ::testing::ElementsAre(1));
}

TEST(JobFileTest, ReplacesDataPaths) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_idx()->set_images("/a");
  ASSERT_TRUE(ReplaceDataPath("/d/t10k-images-idx3-ubyte.gz", spec).ok());
  EXPECT_EQ(spec.data().idx().labels(), "/d/t10k-labels-idx1-ubyte.gz");
  EXPECT_FALSE(ReplaceDataPath("/d/digits", spec).ok());
  spec.mutable_data()->mutable_synthetic_clicks();
  EXPECT_FALSE(ReplaceDataPath("/d", spec).ok());
}

TEST(JobFileTest, TextInPlaceOfATokenFileHasItsTokenizer) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/a.tokens") << "MUSTERTK and the rest";
  std::ofstream(folder + "/a.txt") << "text";
  v1::JobSpec spec;
  v1::SequenceData& data = *spec.mutable_data()->mutable_sequences();
  data.set_path(folder + "/a.tokens");
  ASSERT_TRUE(ReplaceDataPath(folder + "/a.txt", spec).ok());
  EXPECT_EQ(data.tokenizer(), folder + "/a.tokens");
  ASSERT_TRUE(ReplaceDataPath(folder + "/b.txt", spec).ok());
  EXPECT_EQ(data.tokenizer(), folder + "/a.tokens");
  ASSERT_TRUE(ReplaceDataPath(folder + "/a.tokens", spec).ok());
  EXPECT_EQ(data.tokenizer(), "");
  data.set_path(folder + "/a.txt");
  ASSERT_TRUE(ReplaceDataPath(folder + "/b.txt", spec).ok());
  EXPECT_EQ(data.tokenizer(), "");
}

TEST(JobFileTest, DocumentsAreKeptApartUnlessTheJobSaysOtherwise) {
  v1::JobSpec spec;
  FillPacking(spec);
  EXPECT_FALSE(spec.has_data());
  EXPECT_FALSE(spec.has_validation());
  spec.mutable_data()->mutable_sequences()->set_path("a");
  spec.mutable_validation()->mutable_sequences()->set_packing(v1::SequenceData::ACROSS_DOCUMENTS);
  FillPacking(spec);
  EXPECT_EQ(spec.data().sequences().packing(), v1::SequenceData::WITHIN_DOCUMENTS);
  EXPECT_EQ(spec.validation().sequences().packing(), v1::SequenceData::ACROSS_DOCUMENTS);
  spec.mutable_data()->mutable_text()->set_path("a");
  FillPacking(spec);
  EXPECT_TRUE(spec.data().has_text());
  spec.mutable_data()->mutable_mixture()->add_sources();
  FillPacking(spec);
  EXPECT_EQ(spec.data().mixture().sources(0).sequences().packing(),
            v1::SequenceData::WITHIN_DOCUMENTS);
}

void WriteTokens(const std::string& path, const Tokenizer& tokenizer) {
  auto writer = TokenFileWriter::Create(path, tokenizer);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->AddDocument("text").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
}

// Of the same size, so that nothing else would tell.
TEST(JobFileTest, TokensOfAnotherTokenizerAreRefused) {
  const std::string folder = ::testing::TempDir();
  BpeVocabulary turned = BytesAsVocabulary();
  std::swap(turned.tokens['t'], turned.tokens['x']);
  const auto other = BpeTokenizer::Create(turned);
  ASSERT_TRUE(other.ok());
  WriteTokens(folder + "/bytes.tokens", ByteTokenizer());
  WriteTokens(folder + "/same.tokens", **BpeTokenizer::Create(BytesAsVocabulary()));
  WriteTokens(folder + "/other.tokens", **other);
  std::ofstream(folder + "/other.json") << (*other)->json();
  v1::JobSpec spec;
  v1::SequenceData& data = *spec.mutable_data()->mutable_sequences();
  data.set_path(folder + "/bytes.tokens");
  const absl::Status refused = ReplaceDataPath(folder + "/other.tokens", spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/bytes.tokens"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/other.tokens"));
  EXPECT_TRUE(ReplaceDataPath(folder + "/same.tokens", spec).ok());
  data.set_path(folder + "/text");
  data.set_tokenizer(folder + "/other.json");
  EXPECT_FALSE(ReplaceDataPath(folder + "/bytes.tokens", spec).ok());
  EXPECT_TRUE(ReplaceDataPath(folder + "/other.tokens", spec).ok());
  EXPECT_EQ(data.tokenizer(), "");
  // A name that only workers know, and none at all.
  data.set_path(folder + "/text");
  data.set_tokenizer("/elsewhere/tokenizer.json");
  EXPECT_TRUE(ReplaceDataPath(folder + "/bytes.tokens", spec).ok());
  data.set_path(folder + "/text");
  EXPECT_TRUE(ReplaceDataPath(folder + "/other.tokens", spec).ok());
}

}  // namespace
}  // namespace muster
