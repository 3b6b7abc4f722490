"""Which types a schema may name."""

import pytest

from include.contract.spark_types import is_type

GOOD = """string|INT|bigint|decimal|decimal(12,2)|decimal( 38 , 0 )|dec(5)|timestamp_ntz|array<string>|map<string,array<int>>
|struct<a:int,b:struct<c:array<decimal(3,1)>>>|array< struct< x : date > >"""
BAD = """|strin|text|int8|int64|money|binary|varchar(10)|decimal(50,2)|decimal(2,5)|decimal(x,y)|decimal(1,1,1)|decimal(|decimal()
|array|array<>|array<strin>|array<int,int>|map<string>|map<int,int,int>|struct<>|struct<int>|struct<a:int,a:int>|struct<a:int>>|int[]
|bigint(20)|int not null|struct<a int>|array<int|<int>|int int|timestamp with time zone|'string'|string;drop"""


@pytest.mark.parametrize("text", GOOD.replace("\n", "").split("|"))
def test_a_type_of_spark_is_known(text: str) -> None:
    assert is_type(text)


@pytest.mark.parametrize("text", BAD.replace("\n", "").split("|"))
def test_anything_else_is_not(text: str) -> None:
    assert not is_type(text)
