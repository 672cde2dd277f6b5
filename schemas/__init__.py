"""The contract on disk, for any language: rollout.v1.json, run.v1.schema.json, explain.v1.schema.json, …"""
