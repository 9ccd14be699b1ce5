"""JSON Schemas of tools as forms (`form`) and as validators (`validator`); free of Qt."""
