#include "bench/kvbench/load/properties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace remora::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::pair<std::string, std::string>> Parsed(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto properties = ParseProperties(text, "file");
  EXPECT_TRUE(properties.ok()) << properties.status();
  for (const Property& property : *properties) pairs.emplace_back(property.key, property.value);
  return pairs;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(Properties, AreReadAsJavaWritesThem) {
  EXPECT_EQ(Parsed(""), Pairs());
  EXPECT_EQ(Parsed("a=1\nb = 2 \r\n\n  c:3\nd 4\n# e=5\n  ! f=6\ng=\nh"),
            (Pairs{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"g", ""}, {"h", ""}}));
  EXPECT_EQ(Parsed("a=1=2:3"), (Pairs{{"a", "1=2:3"}}));
  EXPECT_EQ(Parsed("a=one\\\n   two\nb=3\\"), (Pairs{{"a", "onetwo"}, {"b", "3"}}));
  EXPECT_EQ(Parsed("# a comment that ends so \\\nb=3"), (Pairs{{"b", "3"}}));
}

TEST(Properties, KnowTheirLines) {
  const auto properties = ParseProperties("\n# x\na=1\n", "some/file");
  ASSERT_TRUE(properties.ok());
  EXPECT_EQ(properties->at(0).origin, "some/file:3");
  const auto wrong = ParseProperties("a=1\n=2\n", "file");
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.status()));
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("file:2"));
}

TEST(Properties, AByteOrderMarkIsNoPartOfAKey) {
  const auto properties = ParseProperties("\xef\xbb\xbfrecordcount=10\n\xef\xbb\xbfx=1\n", "file");
  ASSERT_TRUE(properties.ok());
  ASSERT_EQ(properties->size(), 2u);
  EXPECT_EQ(properties->at(0).key, "recordcount");
  EXPECT_EQ(properties->at(1).key, "\xef\xbb\xbfx") << "it begins a file, and no line";
}

TEST(Properties, OneOfAnotherBindingHasNoNearest) {
  Workload workload;
  const absl::Status rejected = Apply({"redis.host", "localhost", "-p"}, &workload);
  EXPECT_EQ(
      rejected.message(),
      "-p: there is no property redis.host; one of another binding may stand in a file (-P), where it is "
      "ignored");
}

TEST(Properties, OnesWithADotAreNotMistakenForOthersWithout) {
  // As real files of YCSB have them.
  for (const char* key :
       {"workload.name", "target.host", "measurement.interval", "measurement.histogram.verbose",
        "hdrhistogram.fileoutput", "status.interval", "redis.host", "table.name"}) {
    EXPECT_TRUE(IsForOthers({key, "x", "file:1"})) << key;
  }
  for (const char* key : {"workload", "exponential.frac", "exponential.fraction", "histogram.bucket",
                          "timeseries.granularty", "worklaod", "hdrhistogram.percentile"}) {
    EXPECT_FALSE(IsForOthers({key, "x", "file:1"})) << key;
  }
}

TEST(Properties, FilesThatCannotBeReadAreErrors) {
  EXPECT_TRUE(absl::IsNotFound(ReadProperties("/nowhere/workloada").status()));
  EXPECT_FALSE(ReadProperties("/").ok());
  const auto empty = ReadProperties("/dev/null");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->empty());
}

Workload Applied(const std::string& key, const std::string& value) {
  Workload workload;
  const absl::Status status = Apply({key, value, "-p"}, &workload);
  EXPECT_TRUE(status.ok()) << status;
  return workload;
}

TEST(Properties, SetWhatTheyAreCalledAfter) {
  EXPECT_EQ(Applied("recordcount", "17").records, 17u);
  EXPECT_EQ(Applied("insertstart", "17").first_record, 17u);
  EXPECT_EQ(Applied("insertcount", "17").insert_count, 17u);
  EXPECT_EQ(Applied("operationcount", "17").operations, 17u);
  EXPECT_EQ(Applied("maxexecutiontime", "1.5").max_seconds, 1.5);
  EXPECT_EQ(Applied("threadcount", "17").threads, 17u);
  EXPECT_EQ(Applied("target", "1e6").rate, 1e6);
  EXPECT_EQ(Applied("readproportion", "0.25").mix.read, 0.25);
  EXPECT_EQ(Applied("updateproportion", "0.25").mix.update, 0.25);
  EXPECT_EQ(Applied("insertproportion", "0.25").mix.insert, 0.25);
  EXPECT_EQ(Applied("scanproportion", "0.25").mix.scan, 0.25);
  EXPECT_EQ(Applied("minscanlength", "7").scan_lengths.least, 7u);
  EXPECT_EQ(Applied("maxscanlength", "70").scan_lengths.most, 70u);
  EXPECT_TRUE(Applied("scanlengthdistribution", "zipfian").scan_lengths.zipfian);
  EXPECT_EQ(Applied("readmodifywriteproportion", "0.25").mix.read_modify_write, 0.25);
  EXPECT_EQ(Applied("requestdistribution", "latest").distribution.kind, RequestDistribution::Kind::kLatest);
  EXPECT_EQ(Applied("hotspotdatafraction", "0.3").distribution.hot_data_fraction, 0.3);
  EXPECT_EQ(Applied("hotspotopnfraction", "0.3").distribution.hot_operation_fraction, 0.3);
  EXPECT_EQ(Applied("exponential.percentile", "80").distribution.exponential_percentile, 80);
  EXPECT_EQ(Applied("exponential.frac", "0.3").distribution.exponential_fraction, 0.3);
  EXPECT_EQ(Applied("fieldcount", "17").fields.count, 17u);
  EXPECT_EQ(Applied("minfieldlength", "17").fields.least, 17u);
  EXPECT_EQ(Applied("fieldlength", "17").fields.length, 17u);
  EXPECT_EQ(Applied("fieldlengthdistribution", "zipfian").fields.lengths, Fields::Lengths::kZipfian);
  EXPECT_TRUE(Applied("writeallfields", "true").write_all_fields);
  EXPECT_TRUE(Applied("dataintegrity", "true").verify);
  EXPECT_TRUE(Applied("insertorder", "ordered").keys.ordered);
  EXPECT_EQ(Applied("zeropadding", "12").keys.digits, 12u);
  EXPECT_EQ(Applied("keyprefix", "k").keys.prefix, "k");
  for (const char* name : {"CoreWorkload", "site.ycsb.workloads.CoreWorkload"}) Applied("workload", name);
  for (const char* key : {"table", "readallfields", "measurementtype"}) Applied(key, "x");
}

TEST(Properties, AHistogramOfLengthsIsAFile) {
  const std::string path = testing::TempDir() + "/properties_histogram";
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  write("BlockSize\t10\n0\t1\n3\t0\n1\t2\n5\t1\n9\t0\n");
  const Fields fields = Applied("fieldlengthhistogram", path).fields;
  EXPECT_EQ(fields.block, 10u);
  EXPECT_EQ(fields.shares, (std::vector<std::uint64_t>{1, 3, 3, 3, 3, 4}));
  for (const char* const text :
       {"", "BlockSize", "BlockSize\t0\n0\t1\n", "Block\t1\n0\t1\n", "BlockSize\t1\n", "BlockSize\t1\n0\t0\n",
        "BlockSize\t1\n0\t1\n0\t1\n", "BlockSize\t1\n0\n", "BlockSize\t1\n1048576\t1\n",
        "BlockSize\t1\n-1\t1\n", "BlockSize\t1\n0\t4294967297\n", "BlockSize\t1\n0\t1\nx\n"}) {
    write(text);
    Workload workload;
    EXPECT_TRUE(absl::IsInvalidArgument(Apply({"fieldlengthhistogram", path, "f:1"}, &workload))) << text;
  }
  // The one without the other.
  EXPECT_FALSE(Validate(Applied("fieldlengthdistribution", "histogram"), true).ok());
  write("BlockSize\t10\n1\t1\n");
  Workload workload = Applied("fieldlengthhistogram", path);
  EXPECT_FALSE(Validate(workload, true).ok());
  workload.fields.lengths = Fields::Lengths::kHistogram;
  EXPECT_TRUE(Validate(workload, true).ok()) << Validate(workload, true);
  std::remove(path.c_str());
}

TEST(Properties, OutOfBoundsSayWhatIsAllowed) {
  for (const auto& [key, value, allowed] : std::vector<std::array<std::string, 3>>{
           {"recordcount", "0", "from 1 to"},
           {"recordcount", "-1", "whole number"},
           {"recordcount", "+1", "whole number"},
           {"recordcount", "1.5", "whole number"},
           {"recordcount", "1e3", "whole number"},
           {"recordcount", "0x10", "whole number"},
           {"recordcount", "1_000", "whole number"},
           {"target", "+5", "a number"},
           {"target", "0x10", "a number"},
           {"recordcount", "99999999999999999999999", "whole number"},
           {"recordcount", "", "whole number"},
           {"threadcount", "1025", "from 1 to 1024"},
           {"readproportion", "1.01", "from 0 to 1"},
           {"readproportion", "-0.1", "from 0 to 1"},
           {"readproportion", "nan", "from 0 to 1"},
           {"readproportion", "half", "from 0 to 1"},
           {"target", "inf", "a number"},
           {"exponential.percentile", "100", "neither"},
           {"exponential.frac", "0", "neither"},
           {"requestdistribution", "zipf", "uniform, zipfian, latest, hotspot, exponential or sequential"},
           {"fieldlengthdistribution", "other", "constant, uniform, zipfian or histogram"},
           {"fieldlengthhistogram", "/nonexistent", "the path of a file with the lines BlockSize"},
           {"writeallfields", "yes", "true or false"},
           {"insertorder", "random", "hashed or ordered"},
           {"zeropadding", "0", "from 1 to 1024"},
           {"workload", "site.ycsb.workloads.TimeSeriesWorkload", "CoreWorkload"},
       }) {
    Workload workload;
    const absl::Status status = Apply({key, value, "file:7"}, &workload);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << key << "=" << value;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("file:7"), HasSubstr(key), HasSubstr(allowed)));
  }
}

TEST(Properties, AnUnknownOneNamesTheNearest) {
  for (const auto& [wrong, nearest] : Pairs{{"raedproportion", "readproportion"},
                                            {"operationscount", "operationcount"},
                                            {"RecordCount", "recordcount"},
                                            {"exponential.fraction", "exponential.frac"}}) {
    Workload workload;
    const absl::Status status = Apply({wrong, "1", "-p"}, &workload);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("the nearest is " + nearest));
  }
}

TEST(CoreWorkload, SixAreWhatYcsbSaysOfThem) {
  const auto core = [](const char* letter) {
    Workload workload = YcsbDefaults();
    const auto properties = CoreWorkload(letter);
    EXPECT_TRUE(properties.ok());
    for (const Property& property : *properties) EXPECT_TRUE(Apply(property, &workload).ok());
    return workload;
  };
  const auto mix = [&core](const char* letter) {
    const Mix m = core(letter).mix;
    return std::vector<double>{m.read, m.update, m.insert, m.scan, m.read_modify_write};
  };
  EXPECT_EQ(mix("a"), (std::vector<double>{0.5, 0.5, 0, 0, 0}));
  EXPECT_EQ(mix("B"), (std::vector<double>{0.95, 0.05, 0, 0, 0}));
  EXPECT_EQ(mix("c"), (std::vector<double>{1, 0, 0, 0, 0}));
  EXPECT_EQ(mix("d"), (std::vector<double>{0.95, 0, 0.05, 0, 0}));
  EXPECT_EQ(mix("e"), (std::vector<double>{0, 0, 0.05, 0.95, 0}));
  EXPECT_EQ(mix("f"), (std::vector<double>{0.5, 0, 0, 0, 0.5}));
  for (const char* letter : {"a", "b", "c", "e", "f"}) {
    EXPECT_EQ(core(letter).distribution.kind, RequestDistribution::Kind::kZipfian);
  }
  EXPECT_EQ(core("d").distribution.kind, RequestDistribution::Kind::kLatest);
  EXPECT_EQ(core("a").fields.count * core("a").fields.length, 1000u);
  for (const char* wrong : {"g", "", "ab"})
    EXPECT_TRUE(absl::IsInvalidArgument(CoreWorkload(wrong).status()));
}

TEST(ValueSizes, AreOneSizeOrARange) {
  const auto one = ParseValueSizes("4K");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->count, 1u);
  EXPECT_EQ(one->length, 4096u);
  EXPECT_EQ(one->lengths, Fields::Lengths::kConstant);
  const auto range = ParseValueSizes("16..64MiB");
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->count, 1u);
  EXPECT_EQ(range->least, 16u);
  EXPECT_EQ(range->length, kMaxValueSize);
  EXPECT_EQ(range->lengths, Fields::Lengths::kUniform);
  const auto same = ParseValueSizes("4K..4096");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->least, same->length);
}

TEST(ValueSizes, ErrorsSayWhatIsAllowed) {
  for (const char* wrong : {"", "..", "4K..", "..4K", "15", "15..4K", "4K..65M", "67108865", "4K...8K",
                            "4K-8K", "4K..8K..16K", "x", "-4K..4K", "4 K"}) {
    const auto sizes = ParseValueSizes(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(sizes.status())) << wrong;
    EXPECT_THAT(std::string(sizes.status().message()),
                AllOf(HasSubstr("a size from 16 to 64M"), HasSubstr("or two of them, as 4K..1M")))
        << wrong;
  }
  const auto reversed = ParseValueSizes("8K..4K");
  EXPECT_EQ(reversed.status().message(),
            "'8K..4K': the first size is more than the second; name the smaller first");
}

}  // namespace
}  // namespace remora::bench
