#include "common/documents/tokenize_documents.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/compression/packed_for_testing.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/parquet/parquet_for_testing.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Form = DocumentSource::Form;

std::unique_ptr<const BpeTokenizer> Learned() {
  BpeTrainer trainer;
  for (int i = 0; i < 300; ++i) trainer.Add(absl::StrCat(i * 7919, " word", i, " again", i));
  return *BpeTokenizer::Create(*trainer.Train(400));
}

class TokenizeDocumentsTest : public testing::Test {
 protected:
  std::string At(const std::string& name) const { return absl::StrCat(folder_.path(), "/", name); }

  // Makes a token file of what is at a path.
  absl::StatusOr<std::unique_ptr<const TokenFile>> Tokenize(const std::string& path,
                                                            const Tokenizer& tokenizer,
                                                            const std::string& raw = "",
                                                            int threads = 2) const {
    TokenizeOptions tokenize;
    tokenize.threads = threads;
    const auto summary = Make(path, tokenizer, tokenize, raw);
    if (!summary.ok()) return summary.status();
    return TokenFile::Open(Out());
  }

  absl::StatusOr<TokenFileSummary> Make(const std::string& path, const Tokenizer& tokenizer,
                                        const TokenizeOptions& tokenize,
                                        const std::string& raw = "",
                                        const std::string& field = "") const {
    const auto source = FindDocuments(path, raw);
    if (!source.ok()) return source.status();
    DocumentOptions options;
    options.json.field = field;
    return MakeTokenFile(*source, options, tokenizer, tokenize, Out(), Replace::kFiles);
  }

  std::string Out() const { return out_.path() + "/out.tokens"; }

  // Names of the files that are where the token file is made.
  std::vector<std::string> Made() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(out_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Writes sources of several forms, each of several batches, and returns their paths, with the
  // type of raw tokens.
  std::vector<std::pair<std::string, std::string>> Sources() {
    std::string text, lines, pairs, raw;
    std::vector<std::optional<std::string>> rows;
    for (int i = 0; i < 60; ++i) {
      rows.push_back(absl::StrCat("word", i, i % 5 == 0 ? "" : " again"));
      absl::StrAppend(&text, "word", i * 7919, i % 7 == 0 ? ".\n" : " again ");
      absl::StrAppend(&lines, "{\"text\": \"word", i, " again\"}\n");
      absl::StrAppend(&pairs, "{\"prompt\": \"word", i, "\", \"completion\": \"again\"}\n\n");
    }
    for (int i = 0; i < 1500; ++i) raw += std::string(i % 3 == 0 ? "\0\0" : "\x61\0", 2);
    for (const char* name : {"texts", "packed", "rows"})
      std::filesystem::create_directory(At(name));
    folder_.Write("texts/a", text);
    folder_.Write("texts/b", "a short one");
    folder_.Write("texts/c", text);
    folder_.Write("texts/d", text + text);
    folder_.Write("packed/a.gz", Gzip(lines));
    folder_.Write("packed/b.zst", Zstd(lines + lines));
    folder_.Write("pairs.jsonl", pairs);
    folder_.Write("raw.bin", raw);
    folder_.Write("rows/1.parquet", ParquetOfTexts({{"text", rows}}));
    folder_.Write("rows/2.parquet", ParquetOfTexts({{"id", rows}, {"text", rows}}));
    return {{At("texts"), ""},       {At("texts/[acd]"), ""}, {At("packed"), ""},
            {At("pairs.jsonl"), ""}, {At("rows"), ""},        {At("raw.bin"), "u16"}};
  }

  std::string Refusal(const std::string& path, const std::string& raw = "") const {
    const auto source = FindDocuments(path, raw);
    return source.ok() ? "" : std::string(source.status().message());
  }

  const TempFolder folder_;
  const TempFolder out_;
};

std::vector<int32_t> TokensOf(const TokenFile& file) {
  std::vector<int32_t> tokens;
  EXPECT_TRUE(file.Read(0, file.tokens(), tokens).ok());
  return tokens;
}

std::vector<uint8_t> TrainedIn(const TokenFile& file) {
  std::vector<uint8_t> trained;
  EXPECT_TRUE(file.ReadTrained(0, file.tokens(), trained).ok());
  return trained;
}

TEST_F(TokenizeDocumentsTest, EachLineIsADocumentThatEnds) {
  const auto learned = Learned();
  const int32_t end = *learned->end_of_text();
  folder_.Write("d.jsonl", "{\"text\": \"a\"}\n{\"text\": \"word1\"}\n");
  const auto file = Tokenize(At("d.jsonl"), *learned);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> expected = EncodeAll(*learned, "a");
  expected.push_back(end);
  const uint64_t first = expected.size();
  for (const int32_t token : EncodeAll(*learned, "word1")) expected.push_back(token);
  expected.push_back(end);
  EXPECT_EQ(TokensOf(**file), expected);
  EXPECT_THAT((*file)->document_ends(), ElementsAre(first, expected.size()));
  EXPECT_FALSE((*file)->has_trained_bits());
  EXPECT_EQ((*file)->source_bytes(), 6u);
}

TEST_F(TokenizeDocumentsTest, PromptsAreNotLearnedAndEndsAreAsWhatTheyEnd) {
  const auto learned = Learned();
  folder_.Write("p.jsonl", "{\"prompt\": \"ab\", \"completion\": \"c\"}\n");
  const auto pair = Tokenize(At("p.jsonl"), *learned);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_THAT(TrainedIn(**pair), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(TokensOf(**pair).back(), *learned->end_of_text());
  // The last message is the user's.
  folder_.Write("c.jsonl",
                "[{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": "
                "\"b\"}]\n");
  const auto chat = Tokenize(At("c.jsonl"), *learned);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<uint8_t> trained = TrainedIn(**chat);
  EXPECT_EQ(trained.back(), 0);
  EXPECT_EQ(std::count(trained.begin(), trained.end(), 1), 1);
  // A document that ends with an end-of-text needs none.
  folder_.Write("e.jsonl", "{\"prompt\": \"ab\", \"completion\": \"c<|endoftext|>\"}\n");
  const auto ended = Tokenize(At("e.jsonl"), *learned);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ((*ended)->fingerprint(), (*pair)->fingerprint());
}

// Several batches, on any number of threads, packed or not, in one file or in several.
TEST_F(TokenizeDocumentsTest, TheFileDependsOnTheDocumentsAlone) {
  const auto learned = Learned();
  std::string first;
  std::string second;
  for (int i = 0; i < 40'000; ++i) {
    const std::string line = absl::StrCat("{\"prompt\": \"word", i, " ", std::string(i % 200, 'x'),
                                          "\", \"completion\": \"again", i * 7919, "\"}\n");
    (i < 15'000 ? first : second) += line;
  }
  folder_.Write("all.jsonl", first + second);
  const auto expected = Tokenize(At("all.jsonl"), *learned, "", 1);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::string bytes = BytesOfFile(out_.path() + "/out.tokens");
  ASSERT_TRUE(Tokenize(At("all.jsonl"), *learned, "", 3).ok());
  EXPECT_TRUE(BytesOfFile(out_.path() + "/out.tokens") == bytes);
  std::filesystem::create_directory(At("parts"));
  folder_.Write("parts/1.jsonl.gz", Gzip(first));
  folder_.Write("parts/2.zst", Zstd(second));
  folder_.Write("parts/3", "");
  for (const char* path : {"parts", "parts/*"}) {
    ASSERT_TRUE(Tokenize(At(path), *learned).ok());
    EXPECT_TRUE(BytesOfFile(out_.path() + "/out.tokens") == bytes);
  }
}

TEST_F(TokenizeDocumentsTest, TextFilesAreDocumentsAsInAFolderThatAJobReads) {
  const auto learned = Learned();
  std::filesystem::create_directory(At("texts"));
  folder_.Write("texts/a", "some words");
  folder_.Write("texts/b", "more");
  folder_.Write("texts/c", "some words");
  const auto file = Tokenize(At("texts"), *learned);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> expected = EncodeAll(*learned, "some words");
  expected.push_back(*learned->end_of_text());
  for (const int32_t token : EncodeAll(*learned, "more")) expected.push_back(token);
  EXPECT_EQ(TokensOf(**file), expected);
  const auto named = Tokenize(At("texts/[ab]"), *learned);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ((*named)->fingerprint(), (*file)->fingerprint());
}

TEST_F(TokenizeDocumentsTest, TokensAreTakenAsTheyAre) {
  const ByteTokenizer tokenizer;
  const std::string tokens("\x61\0\x62\0\xff\0", 6);
  folder_.Write("train.bin", tokens);
  const auto file = Tokenize(At("train.bin"), tokenizer, "u16");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(TokensOf(**file), ElementsAre(97, 98, 255));
  EXPECT_EQ((*file)->source_bytes(), 3u);
  EXPECT_THAT((*file)->document_ends(), ElementsAre(3));
  // By its content the file is nothing that is known.
  EXPECT_THAT(Refusal(At("train.bin")), HasSubstr("say --raw u16"));
  EXPECT_THAT(Refusal(At("train.bin"), "f32"), HasSubstr("no type 'f32'; expected u8, u16"));
  const auto wrong = Tokenize(At("train.bin"), tokenizer, "u32");
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("no whole number of tokens"));
}

TEST_F(TokenizeDocumentsTest, FormsAreKnownByTheirContent) {
  const auto form = [this](const std::string& name, const std::string& bytes) {
    const auto source = FindDocuments(folder_.Write(name, bytes));
    return source.ok() ? std::string(NameOf(source->form)) : std::string(source.status().message());
  };
  EXPECT_EQ(form("a.bin", "plain text"), "text");
  EXPECT_EQ(form("b.txt", "{\"text\": \"a\"}\n"), "JSON lines");
  EXPECT_EQ(form("b.txt", "{\"text\": \"cut off"), "JSON lines");
  EXPECT_EQ(form("c.txt", Zstd("{\"text\": \"a\"}\n")), "JSON lines");
  EXPECT_EQ(form("d.txt", std::string("\x88\xd8\x34\x01", 4)), "a shard of tokens of llm.c");
  EXPECT_EQ(form("e.txt", "\x93NUMPY"), "a NumPy array of tokens");
  EXPECT_EQ(form("f.idx", std::string("MMIDIDX\0\0", 9)), "indexed tokens of Megatron");
  folder_.Write("f.bin", std::string(4, '\0'));
  EXPECT_EQ(FindDocuments(At("f.bin"))->files, std::vector<std::string>{At("f.idx")});
  EXPECT_EQ(FindDocuments(At("f.*"))->files, std::vector<std::string>{At("f.idx")});
  EXPECT_EQ(form("g.txt", "MUSTERTK"), "a token file");
  EXPECT_EQ(form("g.txt", "PAR1"), "Parquet");
  EXPECT_EQ(form("h.gz", Gzip("plain text")), "compressed text");
  EXPECT_THAT(form("l.jsonl", "plain text"), HasSubstr("l.jsonl:1: the file is JSON"));
  const std::string cut = Gzip("{\"text\": \"a\"}\n").substr(0, 20);
  EXPECT_EQ(FindDocuments(folder_.Write("k.gz", cut)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(form("k.gz", cut), HasSubstr("k.gz is a compressed file that ends early"));
  EXPECT_THAT(form("i.json", "[\n {\"text\": \"a\"}\n]\n"),
              AllOf(HasSubstr("i.json:1: "), HasSubstr("jq -c '.[]'")));
  EXPECT_THAT(form("j", ""), HasSubstr("j is empty"));
  EXPECT_THAT(Refusal(At("none")), HasSubstr("none"));
  EXPECT_THAT(Refusal(At("[ab].*")),
              AllOf(HasSubstr("a.bin is text"), HasSubstr("b.txt is JSON lines")));
}

TokenizeOptions Small() {
  TokenizeOptions tokenize;
  tokenize.threads = 2;
  tokenize.batch_bytes = 200;
  tokenize.keep_bytes = 400;
  return tokenize;
}

// Returns options by which a run is stopped behind so many batches.
TokenizeOptions StoppedBehind(int batches, std::function<absl::Status()> stop) {
  TokenizeOptions tokenize = Small();
  tokenize.added = [left = std::make_shared<int>(batches), stop](uint64_t /*bytes*/) {
    return (*left)-- > 0 ? absl::OkStatus() : stop();
  };
  return tokenize;
}

TEST_F(TokenizeDocumentsTest, ARunThatIsStoppedAnywhereGoesOnToTheSameFile) {
  const auto learned = Learned();
  for (const auto& [path, raw] : Sources()) {
    ASSERT_TRUE(Make(path, *learned, Small(), raw).ok()) << path;
    const std::string expected = BytesOfFile(Out());
    EXPECT_THAT(Made(), ElementsAre("out.tokens"));
    const auto cancel = [] { return absl::CancelledError("stopped"); };
    bool kept = false;
    int stops = 0;
    // Behind each batch, and again soon after it goes on.
    for (int batches = 0;; batches += 1 + batches / 3, ++stops) {
      std::filesystem::remove(Out());
      absl::StatusOr<TokenFileSummary> made =
          Make(path, *learned, StoppedBehind(batches, cancel), raw);
      if (made.ok()) break;
      ASSERT_TRUE(absl::IsCancelled(made.status())) << made.status();
      EXPECT_THAT(Made(), ElementsAre("out.tokens.ends.partial", "out.tokens.partial",
                                      "out.tokens.progress", "out.tokens.trained.partial"));
      made = Make(path, *learned, StoppedBehind(batches % 3, cancel), raw);
      if (!made.ok()) made = Make(path, *learned, Small(), raw);
      ASSERT_TRUE(made.ok()) << path << ": " << made.status();
      kept |= made->kept_tokens > 0;
      ASSERT_TRUE(BytesOfFile(Out()) == expected) << path << " behind " << batches;
      EXPECT_THAT(Made(), ElementsAre("out.tokens"));
    }
    EXPECT_TRUE(kept) << path;
    EXPECT_GT(stops, 1) << path;
    EXPECT_TRUE(BytesOfFile(Out()) == expected) << path;
  }
}

TEST_F(TokenizeDocumentsTest, AProcessThatIsKilledLeavesWhatAnotherGoesOnWith) {
  const auto learned = Learned();
  const std::string path = Sources()[2].first;
  ASSERT_TRUE(Make(path, *learned, Small()).ok());
  const std::string expected = BytesOfFile(Out());
  std::filesystem::remove(Out());
  for (const int batches : {0, 2, 3}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      (void)Make(path, *learned, StoppedBehind(batches, []() -> absl::Status {
                   raise(SIGKILL);
                   return absl::OkStatus();
                 }));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(std::filesystem::exists(Out()));
  }
  const auto made = Make(path, *learned, Small());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_GT(made->kept_tokens, 0u);
  EXPECT_TRUE(BytesOfFile(Out()) == expected);
  EXPECT_THAT(Made(), ElementsAre("out.tokens"));
}

TEST_F(TokenizeDocumentsTest, OtherSourcesAndOptionsAndDamagedFilesBeginAnew) {
  const auto learned = Learned();
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&lines, "{\"a\": \"word", i, "\", \"b\": \"again", i, "\"}\n");
  }
  folder_.Write("d.jsonl", lines);
  const std::string path = At("d.jsonl");
  ASSERT_TRUE(Make(path, *learned, Small(), "", "a").ok());
  const std::string expected = BytesOfFile(Out());
  const auto stop = [&] {
    std::filesystem::remove(Out());
    const auto cancel = [] { return absl::CancelledError("stopped"); };
    ASSERT_FALSE(Make(path, *learned, StoppedBehind(5, cancel), "", "a").ok());
  };
  const auto anew = [&](const std::string& field, const std::string& bytes) {
    const auto made = Make(path, *learned, Small(), "", field);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->kept_tokens, 0u);
    EXPECT_EQ(BytesOfFile(Out()) == bytes, field == "a");
    EXPECT_THAT(Made(), ElementsAre("out.tokens"));
  };
  stop();
  anew("b", expected);
  for (const char* name : {".partial", ".ends.partial"}) {
    stop();
    std::string bytes = BytesOfFile(Out() + name);
    ASSERT_FALSE(bytes.empty());
    bytes.back() ^= 1;
    out_.Write(std::string("out.tokens") + name, bytes);
    anew("a", expected);
    stop();
    std::filesystem::resize_file(Out() + name, 1);
    anew("a", expected);
  }
  stop();
  out_.Write("out.tokens.progress", "{}");
  const auto unknown = Make(path, *learned, Small(), "", "a");
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("out.tokens.partial is there already"));
  std::filesystem::remove(Out() + ".partial");
  stop();
  // As if the file had been written again.
  folder_.Write("d.jsonl", lines);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::min() + std::chrono::hours(1'000'000));
  anew("a", expected);
}

TEST_F(TokenizeDocumentsTest, OneProcessAtATimeWritesAFile) {
  const auto learned = Learned();
  const std::string path = Sources()[3].first;
  absl::Status other;
  TokenizeOptions tokenize = Small();
  tokenize.added = [&](uint64_t) {
    other = Make(path, *learned, Small()).status();
    return absl::OkStatus();
  };
  ASSERT_TRUE(Make(path, *learned, tokenize).ok());
  EXPECT_THAT(std::string(other.message()), HasSubstr("is being written by another process"));
}

TEST_F(TokenizeDocumentsTest, LongTextsAreDividedWithoutATrace) {
  const auto learned = Learned();
  std::string text;
  for (int i = 0; i < 3'000; ++i) {
    absl::StrAppend(&text, "word", i * 7919,
                    i % 3 == 0   ? "  \n"
                    : i % 5 == 0 ? "'re"
                                 : " ",
                    i % 11 == 0 ? "<|endoftext|>" : "", i % 13 == 0 ? "\xc3\xa9\xe4\xb8\xad" : "");
  }
  folder_.Write("t", text);
  const std::vector<int32_t> expected = EncodeAll(*learned, text);
  for (const int threads : {1, 2, 5}) {
    for (const size_t batch : {size_t{64}, size_t{1000}, size_t{1} << 20}) {
      TokenizeOptions tokenize;
      tokenize.threads = threads;
      tokenize.batch_bytes = batch;
      uint64_t batches = 0;
      tokenize.added = [&batches](uint64_t) {
        ++batches;
        return absl::OkStatus();
      };
      ASSERT_TRUE(Make(At("t"), *learned, tokenize).ok());
      EXPECT_EQ(batches > 5, batch < text.size() / 10);
      const auto file = TokenFile::Open(Out());
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_TRUE(TokensOf(**file) == expected) << threads << " " << batch;
      EXPECT_EQ((*file)->source_bytes(), text.size());
      EXPECT_THAT((*file)->document_ends(), ElementsAre(expected.size()));
    }
  }
}

// A document has them once, however it is cut, and a chat only those of its template.
TEST_F(TokenizeDocumentsTest, TokensBeforeDocumentsStandThereOnce) {
  BpeVocabulary vocabulary = BytesAsVocabulary();
  vocabulary.tokens.push_back("<s>");
  vocabulary.added.push_back({256, "<s>"});
  vocabulary.rules.pre_tokenizer = R"({"type": "ByteLevel"})";
  vocabulary.rules.post_processor =
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}},
          {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [256]}}})";
  const auto tokenizer = BpeTokenizer::Create(std::move(vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string text;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&text, "word ", i, "\n");
  folder_.Write("t", text);
  folder_.Write("d.jsonl", "{\"text\": \"a b\"}\n{\"text\": \"c\"}\n");
  folder_.Write("p.jsonl", "{\"prompt\": \"a \", \"completion\": \"b\"}\n");
  folder_.Write("c.jsonl",
                "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                "\"content\": \"b\"}]\n");
  for (const auto& [name, begins] : {std::pair("t", 1), std::pair("d.jsonl", 2),
                                     std::pair("p.jsonl", 1), std::pair("c.jsonl", 0)}) {
    ASSERT_TRUE(Make(At(name), **tokenizer, Small()).ok());
    const auto file = TokenFile::Open(Out());
    ASSERT_TRUE(file.ok()) << file.status();
    const std::vector<int32_t> tokens = TokensOf(**file);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 256), begins) << name;
    EXPECT_EQ(tokens[0] == 256, begins > 0) << name;
    std::filesystem::remove(Out());
  }
}

TEST_F(TokenizeDocumentsTest, CompressedTextsAreWhatTheyUnpackTo) {
  const auto learned = Learned();
  std::string text;
  for (int i = 0; text.size() < size_t{5} << 19; ++i) {
    absl::StrAppend(&text, "word", i * 7919, i % 3 == 0 ? "  \n" : " ",
                    i % 11 == 0 ? "<|endoftext|>" : "", i % 13 == 0 ? "\xc3\xa9\xe4\xb8\xad" : "");
  }
  for (const char* name : {"plain", "packed"}) std::filesystem::create_directory(At(name));
  for (int i = 0; i < 3; ++i) {
    const std::string document = i == 1 ? "the second one" : absl::StrCat(text, i);
    folder_.Write(absl::StrCat("plain/", i), document);
    folder_.Write(absl::StrCat("packed/", i), i == 0 ? Gzip(document) : Zstd(document));
  }
  TokenizeOptions tokenize;
  tokenize.batch_bytes = tokenize.keep_bytes = size_t{1} << 18;
  ASSERT_TRUE(Make(At("plain"), *learned, tokenize).ok());
  const std::string expected = BytesOfFile(Out());
  ASSERT_TRUE(Make(At("packed"), *learned, tokenize).ok());
  EXPECT_TRUE(BytesOfFile(Out()) == expected);
  for (const int batches : {1, 7, 12}) {
    std::filesystem::remove(Out());
    TokenizeOptions stopped = tokenize;
    stopped.added = [left = batches](uint64_t) mutable {
      return left-- > 0 ? absl::OkStatus() : absl::CancelledError("stopped");
    };
    ASSERT_TRUE(absl::IsCancelled(Make(At("packed"), *learned, stopped).status()));
    const auto made = Make(At("packed"), *learned, tokenize);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_GT(made->kept_tokens, 0u);
    EXPECT_TRUE(BytesOfFile(Out()) == expected) << batches;
  }
  folder_.Write("tar.gz", Gzip(std::string("a\0\0\0", 4)));
  EXPECT_THAT(Refusal(At("tar.gz")), AllOf(HasSubstr("binary"), HasSubstr("with gunzip")));
  folder_.Write("cut.gz", Gzip(text).substr(0, 1000));
  const auto cut = Make(At("cut.gz"), *learned, tokenize);
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("compressed file that ends early"));
}

// A line that is right, one of the same file that is wrong, and words of the error.
struct Fault {
  const char* right;
  std::string wrong;
  const char* told;
};

TEST_F(TokenizeDocumentsTest, EveryFaultOfALineNamesFileAndLine) {
  const auto learned = Learned();
  const char* const text = "{\"text\": \"a\"}";
  const char* const pair = "{\"prompt\": \"a\", \"completion\": \"b\"}";
  const char* const chat =
      "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
      "\"b\"}]";
  const Fault faults[] = {
      {text, "{\"text\": \"a\"", "cut off"},
      {pair, "{\"prompt\": \"a\"", "cut off"},
      {chat, "[{\"role\": \"user\"", "cut off"},
      {text, "{", "no whole object"},
      {text, "{}", "no whole object"},
      {text, "plain", "no whole object"},
      {text, "7", "no whole object"},
      {text, "{\"text\": a}", "is not JSON"},
      {text, "{\"text\": \"\xff\"}", "not UTF-8"},
      {text, "{\"text\": " + std::string(100, '[') + std::string(100, ']') + "}", "levels deep"},
      {text, "{\"text\": 7}", "no text 'text'"},
      {text, "{\"other\": \"a\"}", "no"},
      {text, "[{\"role\": \"user\", \"content\": \"a\"}]", "no text 'text'"},
      {pair, "{\"prompt\": \"\", \"completion\": \"b\"}", "prompt is empty"},
      {pair, "{\"prompt\": \"a\", \"completion\": \"\"}", "completion is empty"},
      {pair, "{\"prompt\": \"a\"}", "no text 'completion'"},
      {chat, "[{\"content\": \"a\"}]", "no \"role\""},
      {chat, "[{\"role\": \"user\", \"content\": \"a\"}]", "nothing to learn"},
      {chat, "{\"messages\": []}", "no list of messages"},
  };
  for (const Fault& fault : faults) {
    // In each of the first lines, and behind those by which the form is known.
    for (const int before : {0, 1, 5, 40}) {
      // A file of such a line is text.
      if (before == 0 && absl::string_view(fault.told) == "no whole object") continue;
      std::string lines = "\n";
      for (int i = 0; i < before; ++i) absl::StrAppend(&lines, fault.right, "\n");
      const bool first = before == 0;
      absl::StrAppend(&lines, fault.wrong, "\n", first ? "" : absl::StrCat(fault.right, "\n"));
      for (const bool packed : {false, true}) {
        folder_.Write("f", packed ? Gzip(lines) : lines);
        const auto made = Make(At("f"), *learned, Small());
        const std::string message(made.status().message());
        // The first line alone tells no kind that it could differ from.
        if (made.ok() && first) continue;
        ASSERT_FALSE(made.ok()) << fault.wrong.substr(0, 50) << " behind " << before;
        EXPECT_THAT(message, HasSubstr(absl::StrCat(At("f"), ":", before + 2)))
            << fault.wrong.substr(0, 50);
        if (before == 5 && std::string(fault.told) != "cut off") {
          EXPECT_THAT(message, HasSubstr(fault.told));
        }
        if (before == 1 && std::string(fault.told) == "cut off") {
          EXPECT_THAT(message, HasSubstr(fault.told));
        }
      }
    }
  }
  std::string lines;
  for (int i = 0; i < 40'000; ++i) absl::StrAppend(&lines, "{\"text\": \"", i * 7919, "\"}\n");
  const std::string cut = Gzip(lines);
  folder_.Write("f", cut.substr(0, cut.size() / 2));
  const auto made = Make(At("f"), *learned, Small());
  EXPECT_THAT(std::string(made.status().message()),
              testing::ContainsRegex("/f is a compressed file that ends early.*up to line [0-9]+"));
  EXPECT_THAT(Made(), testing::Not(testing::Contains("out.tokens")));
}

}  // namespace
}  // namespace muster
